"""Permissions: recorded, not enforced."""
