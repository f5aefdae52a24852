"""Statements about who may do what: ``GRANT``, ``REVOKE``, ``SHOW GRANTS`` and ``SHOW POLICIES``.

`clauses` reads what they are made of, `column_sets` adds to columns and takes away from them.
"""
