"""Databases and tables: made, changed, renamed, dropped, restored.

May import history, outbox, queries, database.
"""
