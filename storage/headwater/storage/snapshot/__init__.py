"""Snapshots, tags and consumers: what a table was, and how far its readers are.

May import types, files.
"""
