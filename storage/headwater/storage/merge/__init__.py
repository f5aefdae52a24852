"""Merging sorted runs: a walk over key ranges, and one merge engine a file.

May import formats, rows, schema.
"""
