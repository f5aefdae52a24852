"""MAP columns that a file stores by key (shared shredding), taken apart and put together.

Imports the rooms of errors, of options and of types.
"""
