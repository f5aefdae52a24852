"""Views and functions: documents with a name in a database.

May import admin, queries, database.
"""
