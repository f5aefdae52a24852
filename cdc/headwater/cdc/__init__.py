"""Change data capture: tables of MySQL, MariaDB and PostgreSQL, followed into tables of the lake.

The log of a source is read by one process, and its rows are decoded a column at a time. The end of
each batch is recorded in the lake before its rows, which are then committed under the batch's
number: a restart reads the same batch again and commits what is missing. See
``docs/decisions/0032-change-data-capture.md``.
"""
