"""A table's schema: columns, keys and options, the rules for them, and how they change.

May import types, casts, options.
"""
