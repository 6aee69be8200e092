"""What runs look like on a page: tables, charts, targets."""
