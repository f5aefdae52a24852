"""Rows on their way into files: brought to the schema, encoded, ordered, spread over buckets.

May import types, schema, table_storage.
"""
