"""A writer that changes the rows and the columns of 20 tables of MySQL or MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tests.cdc.pipeline.chaos_writer import ChaosWriter

from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.storage.errors import HeadwaterError

__all__ = ["TABLES", "MySQLChaosWriter", "create_tables"]

PLAIN = tuple(f"t{number}" for number in range(14))
TEXT_KEYS = ("k0", "k1")
FAMILY = ("parents", "children", "grandchildren", "notes")
TABLES = (*PLAIN, *TEXT_KEYS, *FAMILY)

_PLAIN_COLUMNS = "(id INT PRIMARY KEY, a INT, b VARCHAR(20), c DATETIME(3), d INT)"
_DEFINITIONS = {
    **{name: f"CREATE TABLE {name} {_PLAIN_COLUMNS}" for name in PLAIN},
    **{
        name: f"CREATE TABLE {name} (x INT, y VARCHAR(10), v INT, w TEXT, PRIMARY KEY (y, x))"
        for name in TEXT_KEYS
    },
    "parents": "CREATE TABLE parents (id INT PRIMARY KEY, code INT UNIQUE, v INT)",
    "children": "CREATE TABLE children (id INT PRIMARY KEY, parent INT, v INT, FOREIGN KEY "
    "(parent) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "grandchildren": "CREATE TABLE grandchildren (id INT PRIMARY KEY, child INT, v INT, FOREIGN "
    "KEY (child) REFERENCES children (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "notes": "CREATE TABLE notes (id INT PRIMARY KEY, code INT, FOREIGN KEY (code) REFERENCES "
    "parents (code) ON DELETE SET NULL ON UPDATE CASCADE)",
}
_TYPES = ("INT", "BIGINT", "VARCHAR(20)", "DATETIME(3)", "DECIMAL(10,2)", "TEXT")
_WIDER = {"int": "BIGINT", "varchar(20)": "VARCHAR(80)", "varchar(80)": "TEXT"}
_KEYS = 500
_SESSION = (
    "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 2, "
    "sql_mode = 'NO_ENGINE_SUBSTITUTION'"
)

Columns = Sequence[tuple[str, str]]


def create_tables(server: MySQLServer) -> None:
    """Create the tables, with some rows."""
    for table, definition in _DEFINITIONS.items():
        server.rows(definition)
        if table in PLAIN:
            values = (f"({key}, {key}, 'old', NULL, 0)" for key in range(0, 300, 2))
        elif table in TEXT_KEYS:
            values = (f"({key % 9}, 'y{key}', {key}, 'old')" for key in range(0, 300, 2))
        elif table == "parents":
            values = (f"({key}, {key}, 0)" for key in range(0, 100, 2))
        elif table == "notes":
            values = (f"({key}, {key % 100})" for key in range(0, 200, 2))
        else:
            values = (f"({key}, {key % 100}, 0)" for key in range(0, 100, 2))
        server.rows(f"INSERT INTO {table} VALUES {', '.join(values)}")


class MySQLChaosWriter(ChaosWriter[MySQLServer]):
    """Changes the tables of `create_tables`.

    Args:
        address: The source.
        database: Its database.
        seed, has_schema_changes: As for `ChaosWriter`.
    """

    failures = (HeadwaterError,)

    def __init__(
        self, address: Address, database: str, seed: int, *, has_schema_changes: bool = True
    ) -> None:
        super().__init__(seed, self._open, has_schema_changes=has_schema_changes)
        self._address, self._database = address, database

    def _open(self) -> MySQLServer:
        server = MySQLServer(self._address)
        try:
            for statement in (f"USE `{self._database}`", _SESSION):
                server.rows(statement)
        except HeadwaterError:
            server.close()
            raise
        return server

    def _execute(self, session: MySQLServer, statement: str) -> None:
        session.rows(statement)

    def _repair(self, session: MySQLServer) -> None:
        present = {str(name) for (name,) in session.rows("SHOW TABLES")}
        for table in TABLES:
            if table not in present:
                aside = next((name for name in (f"{table}_away",) if name in present), None)
                made = f"RENAME TABLE {aside} TO {table}" if aside else _DEFINITIONS[table]
                self._run(session, made)
        for name in present - set(TABLES):
            if name.startswith("_"):
                self._run(session, f"DROP TABLE {name}")

    # Rows -------------------------------------------------------------------------------------

    def _change_rows(self, session: MySQLServer) -> None:
        numbers = self._random
        image = numbers.choices(("FULL", "MINIMAL", "NOBLOB"), (8, 1, 1))[0]
        self._run(session, f"SET SESSION binlog_row_image = '{image}'", "BEGIN")
        for _ in range(numbers.randint(1, 5)):
            self._run(session, self._row_statement(session))
        if numbers.random() < 0.1:
            self._run(session, "SAVEPOINT s", self._row_statement(session), "ROLLBACK TO s")
        self._run(session, "COMMIT" if numbers.random() < 0.9 else "ROLLBACK")

    def _row_statement(self, server: MySQLServer) -> str:
        numbers = self._random
        kind = numbers.random()
        if kind < 0.25:
            return self._family_statement()
        if kind < 0.35:
            table, key = numbers.choice(TEXT_KEYS), numbers.randrange(_KEYS)
            return numbers.choice(
                (
                    f"REPLACE INTO {table} VALUES ({key % 9}, 'y{key}', {numbers.random()}, 'é')",
                    f"UPDATE IGNORE {table} SET y = CONCAT('z', v) WHERE y = 'y{key}'",
                    f"UPDATE {table} SET v = v + 1 WHERE x = {key % 9}",
                    f"DELETE FROM {table} WHERE y = 'y{key}'",
                )
            )
        table, key = numbers.choice(PLAIN), numbers.randrange(_KEYS)
        columns = self._columns(server, table)
        names = ", ".join(f"`{name}`" for name, _ in columns)
        if kind < 0.6:
            rows = ", ".join(
                self._values(columns, key + number) for number in range(numbers.choice((1, 3, 40)))
            )
            return f"REPLACE INTO {table} ({names}) VALUES {rows}"
        if kind < 0.8 and len(columns) > 1:
            name, type_ = numbers.choice(columns[1:] if columns[0][0] == "id" else columns)
            if name != "id":
                value = self._value(type_)
                return f"UPDATE {table} SET `{name}` = {value} WHERE id BETWEEN {key} AND {key + 9}"
        if kind < 0.9:
            return f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 3}"
        if kind < 0.98:
            return f"UPDATE IGNORE {table} SET id = id + 1000 WHERE id = {key}"
        return f"UPDATE IGNORE {table} SET id = id + 1 ORDER BY id DESC"

    def _family_statement(self) -> str:
        numbers = self._random
        key, other = numbers.randrange(100), numbers.randrange(100)
        return numbers.choice(
            (
                f"INSERT IGNORE INTO parents VALUES ({key}, {key}, 0)",
                f"INSERT IGNORE INTO children VALUES ({key}, {other}, 0)",
                f"INSERT IGNORE INTO grandchildren VALUES ({key}, {other}, 0)",
                f"INSERT IGNORE INTO notes VALUES ({key}, {other})",
                f"DELETE FROM parents WHERE id = {key}",
                f"UPDATE IGNORE parents SET id = {other} WHERE id = {key}",
                f"UPDATE IGNORE parents SET code = {other} WHERE code = {key}",
                f"UPDATE children SET v = v + 1 WHERE parent = {key}",
                f"UPDATE IGNORE children SET id = {other} WHERE id = {key}",
                f"DELETE FROM children WHERE id = {key}",
            )
        )

    def _values(self, columns: Columns, key: int) -> str:
        values = (str(key) if name == "id" else self._value(type_) for name, type_ in columns)
        return f"({', '.join(values)})"

    def _value(self, type_: str) -> str:
        number = self._random.randrange(10_000)
        if type_.startswith("datetime"):
            return f"'2024-01-02 03:04:05' + INTERVAL {number} SECOND"
        if type_.startswith(("varchar", "text")):
            return f"'é {number}'"
        return "NULL" if number % 10 == 0 else str(number)

    def _columns(self, server: MySQLServer, table: str) -> Columns:
        rows = server.rows(
            "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = "
            "%s AND table_name = %s ORDER BY ordinal_position",
            [self._database, table],
        )
        return [(str(name), _text(type_)) for name, type_ in rows]

    # XA ---------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        xid = f"x{self.changes}"
        with self._open() as server:
            self._run(server, f"XA START '{xid}'")
            self._run(server, *(self._row_statement(server) for _ in range(2)), f"XA END '{xid}'")
            self._prepared.append(xid)
            self._run(server, f"XA PREPARE '{xid}'")

    def _end_all_prepared(self, session: MySQLServer) -> None:
        for row in session.rows("XA RECOVER"):
            xid = _text(row[3])
            end = self._random.choice(("COMMIT", "ROLLBACK"))
            self._run(session, f"XA {end} '{xid}'")

    # Columns and tables -----------------------------------------------------------------------

    def _change_schema(self, session: MySQLServer) -> None:
        numbers = self._random
        changes: tuple[Callable[[MySQLServer, str], Sequence[str]], ...] = (
            *(self._add, self._add, self._drop, self._rename, self._swap, self._swap, self._move),
            *(self._widen, self._convert, self._truncate, self._online, self._online),
            *(self._rename_table, self._make_again, self._swap_tables, self._rename_key),
        )
        change = numbers.choice(changes)
        self._run(session, *change(session, numbers.choice(PLAIN)))

    def _others(self, server: MySQLServer, table: str) -> Columns:
        return [column for column in self._columns(server, table) if column[0] != "id"]

    def _place(self, server: MySQLServer, table: str) -> str:
        names = [f" AFTER `{name}`" for name, _ in self._columns(server, table)]
        return self._random.choice(["", " FIRST", *names])

    def _free(self, server: MySQLServer, table: str) -> str:
        used = {name for name, _ in self._columns(server, table)}
        return self._random.choice([name for name in "abcdefghij" if name not in used])

    def _add(self, server: MySQLServer, table: str) -> Sequence[str]:
        if len(self._columns(server, table)) > 8:
            return self._drop(server, table)
        type_ = self._random.choice(_TYPES)
        default = ""
        if type_ != "TEXT" and self._random.random() < 0.5:
            default = f" NOT NULL DEFAULT {self._value('varchar' if 'CHAR' in type_ else 'int')}"
            if type_.startswith("DATETIME"):
                default = " NOT NULL DEFAULT '2020-01-01 00:00:00'"
            default = default.replace("DEFAULT NULL", "DEFAULT 0")
        name, place = self._free(server, table), self._place(server, table)
        return [f"ALTER TABLE {table} ADD COLUMN `{name}` {type_}{default}{place}"]

    def _drop(self, server: MySQLServer, table: str) -> Sequence[str]:
        others = self._others(server, table)
        if len(others) < 2:
            return self._add(server, table)
        return [f"ALTER TABLE {table} DROP COLUMN `{self._random.choice(others)[0]}`"]

    def _rename(self, server: MySQLServer, table: str) -> Sequence[str]:
        name, _ = self._random.choice(self._others(server, table))
        return [f"ALTER TABLE {table} RENAME COLUMN `{name}` TO `{self._free(server, table)}`"]

    def _swap(self, server: MySQLServer, table: str) -> Sequence[str]:
        """Swap two columns' names; where both have one type, perhaps their places, too."""
        others = self._others(server, table)
        if len(others) < 2:
            return self._add(server, table)
        (one, type_), (two, other) = self._random.sample(others, 2)
        if type_ != other or self._random.random() < 0.4:
            return [
                f"ALTER TABLE {table} RENAME COLUMN `{one}` TO `{two}`, "
                f"RENAME COLUMN `{two}` TO `{one}`"
            ]
        columns = self._columns(server, table)
        for at, ((one, type_), (two, other)) in enumerate(pairwise(columns)):
            if type_ == other and "id" not in (one, two):
                place = f"AFTER `{columns[at - 1][0]}`" if at else "FIRST"
                return [
                    f"ALTER TABLE {table} CHANGE `{one}` `{two}` {type_}, "
                    f"CHANGE `{two}` `{one}` {type_} {place}"
                ]
        return self._move(server, table)

    def _move(self, server: MySQLServer, table: str) -> Sequence[str]:
        name, type_ = self._random.choice(self._others(server, table))
        place = self._place(server, table)
        if f"`{name}`" in place:
            place = " FIRST"
        return [f"ALTER TABLE {table} MODIFY `{name}` {type_}{place}"]

    def _widen(self, server: MySQLServer, table: str) -> Sequence[str]:
        wider = [item for item in self._others(server, table) if item[1] in _WIDER]
        if not wider:
            return self._add(server, table)
        name, type_ = self._random.choice(wider)
        return [f"ALTER TABLE {table} MODIFY `{name}` {_WIDER[type_]}"]

    def _convert(self, _: MySQLServer, table: str) -> Sequence[str]:
        charset = self._random.choice(("latin1", "utf8mb4"))
        return [f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}"]

    def _truncate(self, _: MySQLServer, table: str) -> Sequence[str]:
        return [f"TRUNCATE TABLE {table}"]

    def _online(self, server: MySQLServer, table: str) -> Sequence[str]:
        """Change a table as gh-ost and pt-online-schema-change do: a copy takes its name."""
        suffixes = self._random.choice((("gho", "del"), ("new", "old")))
        new, old = (f"_{table}_{suffix}" for suffix in suffixes)
        names = ", ".join(f"`{name}`" for name, _ in self._columns(server, table))
        return [
            f"CREATE TABLE {new} LIKE {table}",
            *(
                s.replace(f" {table} ", f" {new} ")
                for s in self._add(server, table)
                if " ADD " in s
            ),
            f"INSERT INTO {new} ({names}) SELECT {names} FROM {table}",
            f"RENAME TABLE {table} TO {old}, {new} TO {table}",
            f"DROP TABLE {old}",
        ]

    def _rename_table(self, _: MySQLServer, table: str) -> Sequence[str]:
        away = f"{table}_away"
        change = f"UPDATE {away} SET id = id + 3000 WHERE id < {self._random.randrange(100)}"
        return [
            f"RENAME TABLE {table} TO {away}",
            change,
            f"ALTER TABLE {away} RENAME TO {table}",
        ]

    def _swap_tables(self, _: MySQLServer, table: str) -> Sequence[str]:
        other = self._random.choice([name for name in PLAIN if name != table])
        return [f"RENAME TABLE {table} TO _swap, {other} TO {table}, _swap TO {other}"]

    def _make_again(self, server: MySQLServer, table: str) -> Sequence[str]:
        definition = _DEFINITIONS[table]
        rows = ", ".join(f"({key}, {key}, 'again', NULL, 7)" for key in range(1, 50, 3))
        made = [f"DROP TABLE {table}", definition]
        if server.flavour is Flavour.MARIADB and self._random.random() < 0.3:
            made = [definition.replace("CREATE", "CREATE OR REPLACE")]
        return [*made, f"INSERT INTO {table} VALUES {rows}"]

    def _rename_key(self, server: MySQLServer, _: str) -> Sequence[str]:
        """Change columns of tables that foreign keys bind."""
        table = self._random.choice(("children", "grandchildren"))
        names = {name for name, _ in self._columns(server, table)}
        if "v" in names:
            return [f"ALTER TABLE {table} DROP COLUMN v"]
        return [f"ALTER TABLE {table} ADD COLUMN v INT DEFAULT 3"]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
