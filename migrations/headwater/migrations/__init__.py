"""Revisions of the catalog's database, run by Alembic and shipped with the package."""

from headwater.migrations.runner import current, downgrade, newest, upgrade

__all__ = ["current", "downgrade", "newest", "upgrade"]
