"""Columns of one type as columns of another, with the values that Paimon's Java library gives.

May import types.
"""
