"""What runs in workers."""
