"""A stream of batches, and the one that outlives its service."""
