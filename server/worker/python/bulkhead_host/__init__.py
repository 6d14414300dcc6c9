"""What worker_host.py consists of; nothing here is for users' functions."""
