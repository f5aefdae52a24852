"""Revisions of the catalog's database, run by Alembic and shipped with the package."""

from headwater.migrations.runner import check_current, current, downgrade, newest, upgrade

__all__ = ["check_current", "current", "downgrade", "newest", "upgrade"]
