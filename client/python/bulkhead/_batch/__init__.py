"""Batches: their schema and memory, how they are put together, their order and cursors."""
