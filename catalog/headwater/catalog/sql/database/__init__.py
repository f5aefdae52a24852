"""The SQL database: drivers, connections, transactions, and the catalog's tables in it.

May import nothing else of sql.
"""
