"""Shared memory: the arena, the door that hands it out, and what the program keeps of it."""
