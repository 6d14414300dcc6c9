"""A user's stage tried in the user's own process."""
