"""Statements that define databases, tables, views, functions, tags and branches.

`column_types`, `columns` and `clauses` read what tables are made of; the others are statements.
"""
