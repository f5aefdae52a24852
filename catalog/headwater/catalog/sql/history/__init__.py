"""A table's history: commits, snapshots, branches, tags, consumers, partitions.

May import outbox, queries, database.
"""
