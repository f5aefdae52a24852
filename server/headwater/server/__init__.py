"""The HTTP face of a catalog."""
