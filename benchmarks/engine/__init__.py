"""The storage engine, measured against other clients and against plain Parquet."""
