"""The groups of principals in a catalog's database."""

from __future__ import annotations

from sqlalchemy import and_, delete, insert, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.events import EventType, ObjectKind, Subject
from headwater.catalog.model.groups import Membership
from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import check_principal
from headwater.catalog.model.principal import GROUP_PREFIX
from headwater.catalog.sql.admin.principal_names import check_principal_name
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import GroupMemberRow
from headwater.catalog.sql.events.record import record_event_in
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import AlreadyExists, Invalid, NotFound

__all__ = ["Groups"]


class Groups:
    """Adds, lists and removes members of groups, for every warehouse of the database.

    Args:
        database: The database that keeps them.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def add(self, group: str, principal: str) -> None:
        """Make a principal a member.

        Raises:
            AlreadyExists: It is one already.
            Invalid: A name is not one.
        """
        check_principal_name(group, "group's")
        # What permissions call a group is longer than its name.
        check_principal(GROUP_PREFIX + group)
        check_principal_name(principal, "principal's")
        row = {"group_name": group, "principal": principal}

        def work(connection: Connection) -> None:
            connection.execute(insert(GroupMemberRow), row)
            self._recorded(connection, EventType.ADD_MEMBER, group, principal)

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExists(f"'{principal}' is in group '{group}' already") from error

    def remove(self, group: str, principal: str) -> None:
        """End a membership; raises NotFound."""
        row = GroupMemberRow

        def work(connection: Connection) -> bool:
            gone = connection.execute(
                delete(row).where(row.group_name == group, row.principal == principal)
            ).rowcount
            if gone:
                self._recorded(connection, EventType.REMOVE_MEMBER, group, principal)
            return bool(gone)

        if not self._database.write(work):
            raise NotFound(f"'{principal}' is not in group '{group}'")

    def _recorded(
        self, connection: Connection, type_: EventType, group: str, principal: str
    ) -> None:
        subject, now = Subject(ObjectKind.GROUP, group), self._database.runtime.now_millis()
        record_event_in(connection, now, "", type_, subject, {"member": principal})

    def of(self, principal: str) -> frozenset[str]:
        """The groups of a principal; raises Unavailable."""
        row = GroupMemberRow
        with self._database.read() as connection:
            found = connection.execute(select(row.group_name).where(row.principal == principal))
            return frozenset(found.scalars())

    def list(
        self,
        *,
        group: str | None = None,
        principal: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Membership]:
        """The memberships, by group and principal.

        Args:
            group: Only those of this group.
            principal: Only those of this principal.
            max_results: The size of a page; None means everything.
            page_token: The end of the previous page.

        Raises:
            Invalid: The token is not one of such a page.
        """
        check_page(max_results)
        row = GroupMemberRow
        query = select(row.group_name, row.principal).order_by(row.group_name, row.principal)
        if group is not None:
            query = query.where(row.group_name == group)
        if principal is not None:
            query = query.where(row.principal == principal)
        if page_token:
            after, colon, member = page_token.partition("\n")
            if not colon:
                raise Invalid(f"page token '{page_token}' is not one that this listing gave out")
            query = query.where(
                row.group_name >= after,
                or_(row.group_name > after, and_(row.group_name == after, row.principal > member)),
            )
        if max_results is not None:
            query = query.limit(max_results + 1)
        with self._database.read() as connection:
            found = tuple(Membership(*each) for each in connection.execute(query))
        if max_results is None or len(found) <= max_results:
            return Page(found)
        last = found[max_results - 1]
        return Page(found[:max_results], f"{last.group}\n{last.principal}")
