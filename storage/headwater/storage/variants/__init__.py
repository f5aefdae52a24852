"""The bytes of VARIANT values: reading them, making them, and taking them apart into typed columns.

Imports the rooms of errors and of types.
"""
