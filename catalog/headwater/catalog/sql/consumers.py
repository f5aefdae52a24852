"""Consumers: they live on storage alone, where every engine moves them."""

from __future__ import annotations

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import ConsumerInfo, Page
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.names import check_page
from headwater.catalog.sql.outbox import Outbox
from headwater.catalog.sql.snapshots import settled_table
from headwater.storage.consumer import (
    Consumer,
    check_consumer_id,
    delete_consumer_file,
    list_consumer_files,
    write_consumer_file,
)

__all__ = ["Consumers"]


class Consumers:
    """The consumers of one warehouse's tables.

    Args:
        context: Where and with what.
        outbox: Settles open decisions before anything is shown.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._files = context.files
        self._outbox = outbox

    def list(
        self, identifier: Identifier, max_results: int | None, token: str | None
    ) -> Page[ConsumerInfo]:
        """The saved positions, by consumer id."""
        check_page(max_results)
        record = settled_table(self._context, self._outbox, identifier)
        found = [
            ConsumerInfo(item.consumer_id, item.next_snapshot, item.updated_at)
            for item in list_consumer_files(self._files, record.layout)
            if not token or item.consumer_id > token
        ]
        if max_results is None or len(found) <= max_results:
            return Page(tuple(found))
        return Page(tuple(found[:max_results]), found[max_results - 1].consumer_id)

    def reset(self, identifier: Identifier, consumer_id: str, next_snapshot: int | None) -> None:
        """Move a consumer, creating it if need be; None deletes it."""
        check_consumer_id(consumer_id)
        record = settled_table(self._context, self._outbox, identifier)
        if next_snapshot is None:
            delete_consumer_file(self._files, record.layout, consumer_id)
        else:
            moved = Consumer(consumer_id, next_snapshot)
            write_consumer_file(self._files, record.layout, moved)
