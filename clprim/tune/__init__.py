"""Times the tiles of contractions on a device, and keeps what wins in the user's table."""
