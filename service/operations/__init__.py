"""What changes a server: launching, stopping, and the only writer of state."""
