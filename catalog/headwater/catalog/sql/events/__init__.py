"""The change feed: events written with what they tell, numbered afterwards, read in that order.

May import queries, database.
"""
