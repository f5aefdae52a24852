"""The configuration that a client asks for first."""
