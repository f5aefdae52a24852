"""Filters on a table's columns: parsed, written, and applied to rows.

May import types, schema.
"""
