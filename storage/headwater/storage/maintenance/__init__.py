"""What keeps a table in order: deleting rows, expiring snapshots, removing orphan files.

May import commit, read, write, scan, snapshot.
"""
