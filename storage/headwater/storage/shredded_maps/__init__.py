"""MAP columns that lie in a file as columns of their keys, taken apart and put together.

Imports the rooms of errors, of options and of types.
"""
