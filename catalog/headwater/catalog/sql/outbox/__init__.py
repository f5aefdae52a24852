"""Bringing storage in line with the database's decisions.

May import database, queries.
"""
