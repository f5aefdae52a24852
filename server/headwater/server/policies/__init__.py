"""Policies: row filters and column masks."""
