"""The Alembic revisions of the catalog's database."""
