"""Whether the server lives."""
