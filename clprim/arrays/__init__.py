"""Arrays on a device: memory, views, formats, transfer, arithmetic."""
