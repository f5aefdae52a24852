"""PostgreSQL 15 and later as a source: servers, tables, their rows and their log."""
