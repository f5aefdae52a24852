"""Committing: written files become part of a table as one new snapshot, exactly once.

May import write, scan, manifest, snapshot.
"""
