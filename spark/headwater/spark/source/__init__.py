"""Reading a snapshot as a DataFrame: the data source, and Spark's own Parquet scan.

May import spark's types and options.
"""
