"""Queries: the user's text over tables of the catalog, run by Spark.

May import spark's source and sql's context, parser and statement. `references` finds the names in
a text, `relations` opens them, `frame` puts them in their places.
"""
