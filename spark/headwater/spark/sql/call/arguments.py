"""The arguments of ``CALL``, by their places or by their names."""

from __future__ import annotations

from headwater.spark.sql.call.procedure import Arguments, Parameter, Procedure
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.columns import read_value
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid

__all__ = ["TYPE_NAMES", "read_arguments"]

TYPE_NAMES = {str: "STRING", int: "BIGINT", bool: "BOOLEAN", list: "ARRAY<STRING>"}
"""The SQL types of parameters, by their Python types."""


def read_arguments(statement: Statement, procedure: Procedure, context: SqlContext) -> Arguments:
    """Read ``(value, …)`` or ``(name => value, …)``, to the end of the statement.

    Raises:
        Invalid: An argument is unknown, stands twice, is missing, or is of another type.
    """
    given: dict[str, str | list[str] | None] = {}
    by_name: bool | None = None
    statement.expect("(")
    while not statement.accept(")"):
        if given:
            statement.expect(",")
        name = _read_name(statement)
        if by_name is not None and by_name is not (name is not None):
            raise Invalid(
                f"sys.{procedure.name}: give all arguments by their names or none: "
                f"{_usage(procedure)}"
            )
        by_name = name is not None
        parameter = _parameter(procedure, name, len(given))
        if parameter.name in given:
            raise Invalid(f"sys.{procedure.name}: argument '{parameter.name}' is given twice")
        read = _read_array if parameter.kind is list else _read_value
        given[parameter.name] = read(statement)
    statement.end()
    missing = [
        parameter.name
        for parameter in procedure.parameters
        if parameter.is_required and given.get(parameter.name) is None
    ]
    if missing:
        raise Invalid(
            f"sys.{procedure.name}: argument '{missing[0]}' is missing: {_usage(procedure)}"
        )
    kinds = {each.name: each for each in procedure.parameters}
    values = {
        name: value if isinstance(value, list) else _converted(procedure, kinds[name], value)
        for name, value in given.items()
        if value is not None
    }
    return Arguments(context, values)


def _read_name(statement: Statement) -> str | None:
    mark = statement.mark()
    if statement.peek_string():
        return None
    try:
        name = statement.name()
    except Invalid:
        return None
    if statement.accept("=>"):
        return name
    statement.reset(mark)
    return None


def _parameter(procedure: Procedure, name: str | None, place: int) -> Parameter:
    if name is None:
        if place >= len(procedure.parameters):
            raise Invalid(f"sys.{procedure.name}: too many arguments: {_usage(procedure)}")
        return procedure.parameters[place]
    for parameter in procedure.parameters:
        if parameter.name.lower() == name.lower():
            return parameter
    raise Invalid(f"sys.{procedure.name}: no argument is called '{name}': {_usage(procedure)}")


def _read_value(statement: Statement) -> str | None:
    return statement.string() if statement.accept("INTERVAL") else read_value(statement)


def _read_array(statement: Statement) -> list[str] | None:
    """Read ``array('a', 'b')``."""
    if statement.accept("NULL"):
        return None
    statement.expect("ARRAY", "(")
    values: list[str] = []
    while not statement.accept(")"):
        if values:
            statement.expect(",")
        values.append(statement.string())
    return values


def _converted(procedure: Procedure, parameter: Parameter, text: str) -> str | int | bool:
    if parameter.kind is str:
        return text
    try:
        if parameter.kind is int:
            return int(text.rstrip("lL"))
        return {"true": True, "false": False}[text.strip().lower()]
    except (ValueError, KeyError):
        raise Invalid(
            f"sys.{procedure.name}: argument '{parameter.name}' is of type "
            f"{TYPE_NAMES[parameter.kind]}, not '{text}'"
        ) from None


def _usage(procedure: Procedure) -> str:
    """The procedure's form, for messages."""
    parts = [
        f"{parameter.name} {TYPE_NAMES[parameter.kind]}"
        if parameter.is_required
        else f"[{parameter.name} {TYPE_NAMES[parameter.kind]}]"
        for parameter in procedure.parameters
    ]
    return f"sys.{procedure.name}({', '.join(parts)})"
