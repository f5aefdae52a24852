"""Moving bytes: local disk and object stores behind one interface, and where a table's files lie.

May import errors.
"""
