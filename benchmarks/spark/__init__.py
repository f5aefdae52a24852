"""Spark's reads and writes of tables, each beside what Spark does without them in the same run."""
