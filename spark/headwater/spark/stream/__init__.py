"""Following a table's changes in a streaming query.

May import source.
"""
