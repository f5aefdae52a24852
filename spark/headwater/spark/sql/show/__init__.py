"""Statements that list and describe what is in a catalog: SHOW and DESCRIBE."""
