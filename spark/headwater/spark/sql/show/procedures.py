"""``SHOW PROCEDURES`` and ``DESCRIBE PROCEDURE``: the procedures that ``CALL`` runs.

Source: ``ShowProceduresCommand.scala``, ``DescribeProcedureCommand.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headwater.catalog.model.identifier import SYSTEM_DATABASE
from headwater.spark.sql.answers import answer
from headwater.spark.sql.call.arguments import TYPE_NAMES
from headwater.spark.sql.call.procedures import PROCEDURES, named_procedure
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.names import database_name
from headwater.spark.sql.show.describe import HANDLERS as DESCRIBE
from headwater.spark.sql.statement import Statement

__all__ = ["HANDLERS"]


def _show(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW PROCEDURES [{FROM | IN} d]``."""
    statement.expect("SHOW", "PROCEDURES")
    database = SYSTEM_DATABASE
    if statement.accept("IN") or statement.accept("FROM"):
        database = database_name(statement, context)
    statement.end()
    names = sorted(PROCEDURES) if database == SYSTEM_DATABASE else []
    columns: Mapping[str, type] = {
        "catalog": str, "namespace": list, "schema": str, "procedure": str,
    }  # fmt: skip
    warehouse = context.catalog.warehouse
    return answer(columns, [(warehouse, [database], database, name) for name in names])


def _describe(statement: Statement, context: SqlContext) -> Answer:
    """``DESCRIBE PROCEDURE sys.name``, unless a table has the name ``procedure``."""
    start = statement.mark()
    if not statement.accept("DESC"):
        statement.expect("DESCRIBE")
    statement.expect("PROCEDURE")
    if statement.at_end:
        statement.reset(start)
        return DESCRIBE[("DESCRIBE",)](statement, context)
    procedure = named_procedure(statement, context)
    statement.end()
    lines = [("Procedure:", procedure.name), ("Description:", procedure.summary)]
    parameters = procedure.parameters
    names = _padded([parameter.name for parameter in parameters])
    types = _padded([TYPE_NAMES[parameter.kind] for parameter in parameters])
    texts = [
        f"IN {name} {kind}" if parameter.is_required else f"IN {name} {kind} DEFAULT NULL"
        for parameter, name, kind in zip(parameters, names, types, strict=True)
    ]
    for text in texts or ["()"]:
        lines.append(("" if len(lines) > 2 else "Parameters:", text.rstrip()))
    labels = _padded([label for label, _ in lines])
    rows = [(f"{label} {text}",) for label, (_, text) in zip(labels, lines, strict=True)]
    return answer({"procedure_desc": str}, rows)


def _padded(texts: list[str]) -> list[str]:
    width = max(map(len, texts), default=0)
    return [text.ljust(width) for text in texts]


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("SHOW", "PROCEDURES"): _show,
    ("DESCRIBE", "PROCEDURE"): _describe,
    ("DESC", "PROCEDURE"): _describe,
}
