"""Reading a split: files of any schema version to rows of the present one, merged and filtered.

May import scan, merge, formats, casts.
"""
