"""Plans of scans."""
