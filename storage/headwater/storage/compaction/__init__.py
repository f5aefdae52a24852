"""Compaction: a table's files rewritten into fewer, with the same rows.

May import read, write, scan.
"""
