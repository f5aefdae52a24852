"""``COPY INTO``: files loaded into tables, each once, and rows written to files.

May import ``sql`` and ``write``; nothing but ``sql.session`` imports it.
"""
