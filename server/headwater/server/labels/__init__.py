"""Labels of databases, tables, views and functions."""
