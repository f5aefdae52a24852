"""Upkeep of a table: deleting rows, expiring snapshots, removing orphan files.

May import compaction, commit, read, write, scan, snapshot.
"""
