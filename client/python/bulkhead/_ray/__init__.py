"""The rooms of bulkhead.ray."""
