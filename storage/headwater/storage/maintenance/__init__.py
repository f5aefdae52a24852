"""Upkeep of a table: deleting rows, expiring snapshots, removing orphan files.

May import commit, read, write, scan, snapshot.
"""
