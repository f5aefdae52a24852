"""Writing rows: from a caller's data to the files of a commit.

May import merge, formats, rows, manifest, scan.
"""
