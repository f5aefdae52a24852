"""Alembic's environment: runs the scripts on the connection that `upgrade` gives it."""

from alembic import context
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import VERSION_TABLE, Base
from headwater.migrations.runner import CONNECTION


def _run() -> None:
    connection = context.config.attributes[CONNECTION]
    assert isinstance(connection, Connection)
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
        # SQLite's is, too, since the driver does not begin transactions by itself.
        transactional_ddl=connection.dialect.name in ("sqlite", "postgresql"),
    )
    with context.begin_transaction():
        context.run_migrations()


_run()
