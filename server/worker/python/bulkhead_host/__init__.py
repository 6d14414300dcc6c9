"""The parts of worker_host.py. User functions should not import them."""
