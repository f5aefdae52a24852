"""SQL statements over tables of the catalog, and over whatever else the Spark session knows.

May import spark's lake. `statement` reads words, `context` is what a statement runs in, each other
room is one kind of statement, and `session` sends a text to its room.
"""
