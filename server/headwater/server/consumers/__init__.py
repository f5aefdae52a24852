"""Consumers: saved positions in a table's history."""
