"""System tables: a table's metadata and changes as Arrow, with Paimon's columns.

May import every room of storage but jobs; the catalog adds what only it knows.
"""
