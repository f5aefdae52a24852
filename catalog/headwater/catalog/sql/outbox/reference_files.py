"""Tags, consumers and deleted roots on storage, as the catalog decided; repeatable from any point.

Other engines write tags on storage without asking: theirs are never overwritten by a new one.
"""

from __future__ import annotations

import logging

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import ConsumerLeaseRow
from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.maintenance.deletion import Removal, delete_consumers, delete_roots

__all__ = ["delete_removed", "rename_tag", "write_tag"]

_LOG = logging.getLogger(__name__)

# The branch is locked meanwhile: other changes of it come between.
_MAX_ROOTS_AT_ONCE = 100


def write_tag(
    files: FileAccess, layout: TableLayout, name: str, document: str, *, is_new: bool
) -> None:
    """Write a tag's file.

    Args:
        files: The storage.
        layout: The branch.
        name: The tag.
        document: Its content.
        is_new: Whether to leave a tag of this name that another engine wrote meanwhile.
    """
    if not is_new:
        files.write(layout.tag(name), document.encode())
        return
    is_written = files.write_if_absent(layout.tag(name), document.encode())
    if not is_written and files.read(layout.tag(name)) != document.encode():
        _LOG.warning("%s is another engine's tag; it is left as it is", layout.tag(name))


def rename_tag(files: FileAccess, layout: TableLayout, name: str, new_name: str) -> None:
    """Give a tag's file another name; both stay if another engine wrote a tag of that name."""
    try:
        data = files.read(layout.tag(name))
    except NotFound:
        return
    is_written = files.write_if_absent(layout.tag(new_name), data)
    if not is_written and files.read(layout.tag(new_name)) != data:
        _LOG.warning("%s is another engine's tag; it is left as it is", layout.tag(new_name))
        return
    files.delete(layout.tag(name))
    files.delete(layout.tag_success_file(name))


def delete_removed(
    connection: Connection, files: FileAccess, table_id: str, layout: TableLayout, document: str
) -> bool:
    """Delete the roots and consumers of a deletion.

    Args:
        connection: The transaction, which holds the branch's lock.
        files: The storage.
        table_id: The table.
        layout: The branch.
        document: What goes.

    Returns:
        Whether all are gone; more calls delete the rest.
    """
    removal = Removal.from_json(document)
    if not delete_roots(files, layout, removal, limit=_MAX_ROOTS_AT_ONCE):
        return False
    if removal.consumers:
        # A reader moves its consumer under the lock of its lease.
        connection.execute(
            select(ConsumerLeaseRow.consumer_id)
            .where(
                ConsumerLeaseRow.table_id == table_id,
                ConsumerLeaseRow.branch == layout.branch,
                ConsumerLeaseRow.consumer_id.in_(list(removal.consumers)),
            )
            .order_by(ConsumerLeaseRow.consumer_id)
            .with_for_update()
        ).all()
        delete_consumers(files, layout, removal)
    return True
