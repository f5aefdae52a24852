"""File formats: the bytes of data files and of Avro containers, and the system columns beside them.

May import types, schema, files.
"""
