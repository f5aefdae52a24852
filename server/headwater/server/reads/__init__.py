"""Rows that the server reads for callers who are not shown all of a table."""
