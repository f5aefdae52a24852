"""The handle by which a program works on one table.

May import model.
"""
