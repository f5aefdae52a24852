"""What the processes of `tests.processes` need, also what they would import late."""

import importlib

for _name in (
    "headwater.cli.main",
    "headwater.cli.serve",
    "headwater.client",
    "headwater.migrations",
    "headwater.server.run",
    "alembic.command",
    "alembic.script",
    "mako.template",
    "psycopg",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "uvicorn.lifespan.on",
    "uvloop",
):
    importlib.import_module(_name)
