"""The lake as the target of change data capture."""
