"""Maintenance jobs run by Spark's tasks.

May import spark's errors.
"""
