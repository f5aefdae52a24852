"""The places of tables' data and index files outside their directories.

They are claimed so that nothing is ever deleted there: nobody knows any more what was there first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa
from alembic import context, op

from headwater.migrations.runner import DISCARD
from headwater.migrations.steps import count_rows, refuse_losses
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SORT_PLACE_LENGTH = 400
_CHUNK = 1000
_DROPPED = "/dropped"
_OPTIONS = ("data-file.external-paths", "global-index.external-path")
_KINDS = ("data", "kept-data")

_places = sa.table(
    "hw_places",
    *(
        sa.column(name, sa.String())
        for name in ("place_hash", "sharer", "place", "sort_place", "kind", "warehouse", "owner")
    ),
)
_databases = sa.table(
    "hw_databases", *(sa.column(name, sa.String()) for name in ("id", "warehouse"))
)
_tables = sa.table(
    "hw_tables", *(sa.column(name, sa.String()) for name in ("id", "database_id", "path"))
)
_schemas = sa.table(
    "hw_schemas", *(sa.column(name, sa.String()) for name in ("table_id", "document"))
)


def upgrade() -> None:
    connection = op.get_bind()
    is_named = sa.or_(*(_schemas.c.document.contains(option) for option in _OPTIONS))
    tables = connection.execute(
        sa.select(_tables.c.id, _tables.c.path, _databases.c.warehouse)
        .join(_databases, _databases.c.id == _tables.c.database_id)
        .where(_tables.c.id.in_(sa.select(_schemas.c.table_id).where(is_named)))
        .order_by(_tables.c.id)
    ).all()
    for table in tables:
        documents = connection.execute(
            sa.select(_schemas.c.document).where(_schemas.c.table_id == table.id, is_named)
        ).scalars()
        _claim(table.id, table.path, table.warehouse.removesuffix(_DROPPED), documents.all())


def check_losses() -> None:
    """Refuse to go back while files of purged tables are to be deleted."""
    open_rows = count_rows("hw_outbox", "action = 'drop-data'")
    if open_rows and not context.config.attributes[DISCARD]:
        raise Invalid(
            f"revision {down_revision} cannot delete the files of purged tables at {open_rows} "
            "places outside their directories; nothing was changed: start a server, which deletes "
            "them, or leave them there with --discard"
        )


def downgrade() -> None:
    refuse_losses()
    op.execute(sa.text("DELETE FROM hw_outbox WHERE action = 'drop-data'"))
    op.get_bind().execute(_places.delete().where(_places.c.kind.in_(_KINDS)))


def _claim(table_id: str, path: str, warehouse: str, documents: Sequence[str]) -> None:
    connection = op.get_bind()
    known = connection.execute(sa.select(_places.c.place).where(_places.c.owner == table_id))
    held = [Place(place) for place in known.scalars()]
    places = {place for document in documents for place in _named(document)}
    for place in sorted(places, key=lambda place: len(place.key)):
        if any(each.holds(place) for each in held):
            continue
        held.append(place)
        row = {
            "place_hash": hashlib.sha256(place.key.encode()).hexdigest(),
            "sharer": table_id,
            "place": place.key,
            "sort_place": place.key[:SORT_PLACE_LENGTH],
            "kind": "kept-data",
            "warehouse": warehouse,
            "owner": table_id,
        }
        connection.execute(_places.insert(), row)


def _named(document: str) -> Iterator[Place]:
    options: Mapping[str, str] = json.loads(document).get("options", {})
    for option in _OPTIONS:
        for text in options.get(option, "").split(","):
            name = text.strip()
            if not name.startswith("/") and ":" not in name:
                continue
            try:
                yield Place.of(name)
            except Invalid:
                continue  # no file access takes it either
