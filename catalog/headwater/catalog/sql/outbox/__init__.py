"""How storage follows what the database decided.

May import database, queries.
"""
