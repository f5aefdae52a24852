"""Policies: recorded, not enforced."""
