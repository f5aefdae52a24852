"""Index files of a table: deletion vectors, hash indexes, and the index manifests that name them.

May import manifest, rows, and what is below them.
"""
