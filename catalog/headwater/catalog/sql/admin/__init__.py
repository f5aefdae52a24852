"""Warehouses, tokens and grants, and what keeps a warehouse running.

May import outbox, queries, database.
"""
