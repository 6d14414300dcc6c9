"""Shared memory: the arena, the door that passes it, and the slots that the program keeps."""
