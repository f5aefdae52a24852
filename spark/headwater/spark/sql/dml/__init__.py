"""Statements that change rows: INSERT, UPDATE, DELETE, MERGE.

May import the rooms of queries and of writes.
"""
