"""Branches."""
