"""Named objects: views and functions, one implementation with a shape for each.

May import admin, queries, database.
"""
