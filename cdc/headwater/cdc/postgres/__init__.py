"""PostgreSQL as a source: its log and its tables."""
