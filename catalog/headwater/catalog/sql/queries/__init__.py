"""Look-ups and lists that several rooms share: names to rows, pages in order.

May import database.
"""
