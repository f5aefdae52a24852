"""The local variables of a script, kept as variables of Spark's session.

Spark resolves a name as a column first, and then as a variable. So a local variable has its own
name in the session while a statement runs that mentions it. A variable of that name that another
one hides, the user's or that of an outer statement, waits under a hidden name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import pyspark.sql.types as st
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from headwater.spark.errors import unlogged_errors
from headwater.spark.names import quoted
from headwater.spark.sql.names import string_literal
from headwater.spark.sql.parser.tokens import Token
from headwater.spark.sql.script.conditions import ConditionError
from headwater.spark.types import sql_type_text

__all__ = ["Change", "Scope", "Variable", "Variables"]

Change = tuple[int, int, str]
"""Offsets in a script, and the text to write there."""


@dataclass(eq=False)
class Variable:
    """A local variable.

    Attributes:
        name: The name.
        hidden: The name under which it waits.
        default: The text of its default.
        is_hidden: Whether it waits there.
    """

    name: str
    hidden: str
    default: str
    is_hidden: bool = False

    @property
    def location(self) -> str:
        """The variable of the session that has its value, as SQL names it."""
        return _session_name(self.hidden if self.is_hidden else self.name)


@dataclass(eq=False)
class Scope:
    """The variables of a compound statement or of a loop.

    Attributes:
        label: The label, in small letters.
        variables: The variables by their folded names.
    """

    label: str | None
    variables: dict[str, Variable] = field(default_factory=dict)


@dataclass(frozen=True)
class _Saved:
    """A variable of the user's.

    Attributes:
        name: Its name.
        value: The hidden variable that has its value.
        default: A constant with the value of its default.
    """

    name: str
    value: str
    default: str


@dataclass
class _Mentions:
    """The names in a statement that may be those of variables.

    Attributes:
        bare: Folded names without a qualifier.
        of_session: Offsets of ``session.name``, by the folded name.
        of_labels: Offsets of ``label.name``, with the variable, by the label.
    """

    bare: set[str] = field(default_factory=set)
    of_session: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    of_labels: dict[str, list[tuple[int, int, Variable]]] = field(default_factory=dict)


class Variables:
    """The variables of a script.

    Args:
        spark: The session.
        fold: Gives names that are one to the session the same form.
    """

    def __init__(self, spark: SparkSession, fold: Callable[[str], str]) -> None:
        self.scopes: list[Scope] = []
        self._spark, self._fold = spark, fold
        # The local variables whose values variables of the session with their names have; None
        # where that one has no one's value any more.
        self._present: dict[str, Variable | None] = {}
        self._saved: dict[str, _Saved | None] = {}
        self._names = (f"headwater_script_{number}" for number in count())

    # Scopes

    def enter(self, label: str | None) -> Scope:
        """Begin a scope."""
        scope = Scope(label)
        self.scopes.append(scope)
        return scope

    def leave(self, scope: Scope) -> None:
        """End the innermost scope."""
        self.scopes.remove(scope)
        for key, variable in scope.variables.items():
            if variable.is_hidden:
                self._drop(variable.hidden)
            elif self._present.get(key) is variable:
                self._present[key] = None

    def close(self) -> None:
        """Put back what the session had under the names of the script's variables."""
        for key in list(self._present):
            self._release(key)

    def find(self, name: str) -> Variable | None:
        """The variable of a name; None where it is not a local one."""
        key = self._fold(name)
        for scope in reversed(self.scopes):
            if key in scope.variables:
                return scope.variables[key]
        return None

    def _find_qualified(self, label: str, name: str) -> Variable | None:
        for scope in reversed(self.scopes):
            if scope.label == label.lower():
                return scope.variables.get(self._fold(name))
        return None

    # Statements

    def declare(self, scope: Scope, name: str, definition: str, default: str = "NULL") -> None:
        """Declare a variable, once what its definition mentions has been made present.

        Args:
            scope: Its scope.
            name: Its name.
            definition: Its type and default, as SQL.
            default: The default alone.

        Raises:
            ConditionError: The scope has such a variable.
        """
        key = self._fold(name)
        if key in scope.variables:
            raise ConditionError(
                f"variable {name} cannot be declared: the statement has such a variable; choose "
                "another name",
                "VARIABLE_ALREADY_EXISTS",
                "42723",
            )
        before = self._make_way(name)
        self._define(name, definition)
        if before is not None:
            before.is_hidden = True
        variable = Variable(name, next(self._names), default)
        scope.variables[key] = variable
        self._present[key] = variable

    def assign(self, scope: Scope, values: Mapping[str, str]) -> None:
        """Give variables of a scope values of expressions that mention no local variable."""
        assignments = (
            f"{scope.variables[self._fold(name)].location} = {value}"
            for name, value in values.items()
        )
        if values:
            self._spark.sql(f"SET VARIABLE {', '.join(assignments)}")

    def hidden(self, definition: str) -> str:
        """Make a variable that no statement of the user's mentions.

        Returns:
            Its name, as SQL names it.
        """
        name = next(self._names)
        self._define(name, definition)
        return _session_name(name)

    def forget(self, location: str) -> None:
        """Drop a variable that `hidden` made."""
        self._spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {location}")

    def prepare(self, tokens: Sequence[Token], *, sees_locals: bool = True) -> list[Change]:
        """Give variables that a statement mentions their names in the session.

        Args:
            tokens: The statement's.
            sees_locals: Whether it sees local variables.

        Returns:
            What to change in the statement.
        """
        mentions = self._mentions(tokens, sees_locals)
        changes: list[Change] = []
        labels: list[str] = []
        for label, places in mentions.of_labels.items():
            if self._fold(label) in mentions.bare and self.find(label) is not None:
                # Here the label's name is also that of a variable.
                self._bind(mentions.bare, sees_locals)
                changes += [(start, end, variable.location) for start, end, variable in places]
            else:
                labels.append(label)
                mentions.bare.discard(self._fold(label))
        self._release_others(mentions, labels, sees_locals)
        self._bind(mentions.bare, sees_locals)
        for key, offsets in mentions.of_session.items():
            saved = self._saved.get(key)
            if saved is not None and key in self._present:
                changes += [(start, end, _session_name(saved.value)) for start, end in offsets]
        for label in labels:
            self._bind_label(label, [each[2] for each in mentions.of_labels[label]])
        return changes

    def target(self, parts: Sequence[str]) -> str:
        """The variable of the session for the target of an assignment, as SQL names it.

        The statement has been prepared.
        """
        variable: Variable | None = None
        if len(parts) == 1:
            variable = self.find(parts[0])
        elif len(parts) == 2:
            variable = self._find_qualified(*parts)
        if variable is not None:
            return variable.location
        qualifier = [part.lower() for part in parts[:-1]]
        if qualifier in (["session"], ["system", "session"]):
            key = self._fold(parts[-1])
            saved = self._saved.get(key)
            if saved is not None and key in self._present:
                return _session_name(saved.value)
        return ".".join(map(quoted, parts))

    def default_of(self, parts: Sequence[str]) -> str:
        """The text of the default of an assignment's target."""
        variable = self.find(parts[0]) if len(parts) == 1 else None
        if len(parts) == 2:
            variable = self._find_qualified(*parts)
        return "DEFAULT" if variable is None else variable.default

    # Names in the session

    def _mentions(self, tokens: Sequence[Token], sees_locals: bool) -> _Mentions:
        mentions = _Mentions()
        labels = {scope.label for scope in self.scopes if scope.label} if sees_locals else set()
        for index, token in enumerate(tokens):
            if not token.is_name or (index and tokens[index - 1].keyword == "."):
                continue
            names = _dotted(tokens, index)
            first = token.text.lower()
            length = 2 if first == "session" else 3
            if first in ("session", "system") and len(names) >= length:
                name = names[length - 1]
                if first == "session" or names[1].text.lower() == "session":
                    place = (token.start, name.end)
                    mentions.of_session.setdefault(self._fold(name.text), []).append(place)
            elif first in labels and len(names) > 1:
                variable = self._find_qualified(first, names[1].text)
                if variable is not None:
                    place = (token.start, names[1].end)
                    mentions.of_labels.setdefault(first, []).append((*place, variable))
                    continue
            mentions.bare.add(self._fold(token.text))
        return mentions

    def _release_others(
        self, mentions: _Mentions, labels: Sequence[str], sees_locals: bool
    ) -> None:
        """Give the session back names that mean none of the script's variables now."""
        folded = set(map(self._fold, labels))
        for key in list(self._present):
            if key in folded:
                continue
            is_local = sees_locals and key in mentions.bare and self.find(key) is not None
            is_mentioned = key in mentions.bare or key in mentions.of_session
            if not is_local and (is_mentioned or self._saved.get(key) is not None):
                self._release(key)

    def _bind(self, keys: Iterable[str], sees_locals: bool) -> None:
        for key in sorted(keys) if sees_locals else ():
            variable = self.find(key)
            if variable is not None and variable.is_hidden:
                before = self._make_way(variable.name)
                self._define(variable.name, f"DEFAULT {variable.location}")
                if before is not None:
                    before.is_hidden = True
                self._drop(variable.hidden)
                variable.is_hidden = False
                self._present[key] = variable

    def _bind_label(self, label: str, variables: Sequence[Variable]) -> None:
        before = self._make_way(label)
        fields = {variable.name: variable for variable in variables}
        values = ", ".join(
            f"{string_literal(name)}, {variable.location}" for name, variable in fields.items()
        )
        if before is not None:
            fields_of_before = before in fields.values()
            before.is_hidden = True
            if fields_of_before:
                values = values.replace(_session_name(before.name), before.location)
        self._define(label, f"DEFAULT named_struct({values})")
        self._present[self._fold(label)] = None

    def _make_way(self, name: str) -> Variable | None:
        """Copy what has a name in the session, which another variable takes.

        Returns:
            The local variable that had it, which is hidden once another has the name.
        """
        key = self._fold(name)
        if key not in self._present:
            self._saved[key] = self._save(name)
            self._present[key] = None
        before = self._present[key]
        if before is not None:
            self._define(before.hidden, f"DEFAULT {_session_name(before.name)}")
        return before

    def _save(self, name: str) -> _Saved | None:
        own, value = _session_name(name), next(self._names)
        try:
            with unlogged_errors():
                self._define(value, f"DEFAULT {own}")
        except AnalysisException:
            return None
        default = "NULL"
        try:
            with unlogged_errors():
                self._spark.sql(f"SET VARIABLE {own} = DEFAULT")
                default = self._constant(own)
        except PySparkException:
            pass  # The default cannot be computed, so nobody can set it.
        self._spark.sql(f"SET VARIABLE {own} = {_session_name(value)}")
        return _Saved(name, value, default)

    def _constant(self, location: str) -> str:
        """The value of a variable as a constant; a default may not name another variable."""
        kind = self._spark.sql(f"SELECT {location}").schema.fields[0].dataType
        is_nested = isinstance(kind, st.ArrayType | st.MapType | st.StructType)
        read = f"to_json({location})" if is_nested else f"CAST({location} AS STRING)"
        if isinstance(kind, st.BinaryType):
            read = location
        digits = self._spark.sql(f"SELECT hex({read})").collect()[0][0]
        written = sql_type_text(kind)
        if digits is None:
            return f"CAST(NULL AS {written})"
        if isinstance(kind, st.BinaryType):
            return f"X'{digits}'"
        text = f"CAST(X'{digits}' AS STRING)"
        if is_nested:
            return f"from_json({text}, {string_literal(written)})"
        return f"CAST({text} AS {written})"

    def _release(self, key: str) -> None:
        """Give a name back to the session."""
        variable = self._present.pop(key)
        if variable is not None:
            self._define(variable.hidden, f"DEFAULT {variable.location}")
            variable.is_hidden = True
        saved = self._saved.pop(key, None)
        if saved is None:
            self._drop(key if variable is None else variable.name)
            return
        own, value = _session_name(saved.name), _session_name(saved.value)
        self._define(saved.name, f"DEFAULT {saved.default}")
        self._spark.sql(f"SET VARIABLE {own} = {value}")
        self._drop(saved.value)

    def _define(self, name: str, definition: str) -> None:
        self._spark.sql(f"DECLARE OR REPLACE VARIABLE {_session_name(name)} {definition}")

    def _drop(self, name: str) -> None:
        self.forget(_session_name(name))


def _session_name(name: str) -> str:
    return f"system.session.{quoted(name)}"


def _dotted(tokens: Sequence[Token], index: int) -> list[Token]:
    """The names with dots between them that begin at a token."""
    names = [tokens[index]]
    while (
        index + 2 < len(tokens) and tokens[index + 1].keyword == "." and tokens[index + 2].is_name
    ):
        index += 2
        names.append(tokens[index])
    return names
