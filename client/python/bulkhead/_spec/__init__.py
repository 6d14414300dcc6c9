"""What users give as a spec, and specs built in Python."""
