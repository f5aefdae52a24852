"""Manifests: which data files a commit added and took away, with their statistics.

May import formats, rows, table_storage.
"""
