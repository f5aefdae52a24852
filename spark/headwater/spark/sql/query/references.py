"""The tables that a query names: where each name stands in the text, and what follows it.

The user's text is never written anew; names are replaced where they stand, and all else is Spark's
to read. The grammar here is sqlglot's, asked only for the places of tables and for the reach of the
names that ``WITH`` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.spark.sql.query.metadata_columns import MetadataNames, find_metadata
from headwater.spark.sql.query.parsing import parsed_query
from headwater.spark.sql.query.table_clauses import CLAUSE_WORDS, Moment, TableClauses
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["Qualifier", "Reference", "find_references"]


@dataclass(frozen=True)
class Qualifier:
    """``database.table`` before a column: only a table without an alias can be meant.

    Attributes:
        parts: The parts of the name, the column left out.
        start, end: Their place in the text.
    """

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Reference:
    """One place where a query reads a table.

    Attributes:
        parts: The parts of the name.
        start, end: The place to be replaced: the name and the clauses after it.
        is_bare: True if nothing but a name may stand there, as after ``TABLE``.
        has_alias: True if the query gives it a name of its own.
        moment: The moment that is read, if the query says one.
        options: The options that the query gives.
        function: The option of a table function of Paimon's, and its value.
        metadata: The metadata columns that the query names of it.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    is_bare: bool = False
    has_alias: bool = False
    moment: Moment | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    function: tuple[str, str] | None = None
    metadata: tuple[str, ...] = ()


def find_references(
    text: str, fold: Callable[[str], str] = str.casefold
) -> tuple[list[Reference], list[Qualifier], MetadataNames]:
    """The tables that a query reads by name, in the order of the text, ``WITH`` names left out.

    Args:
        text: One query.
        fold: Gives names that are one to the session the same form.

    Returns:
        The tables, the columns whose qualifiers have several parts, and the metadata columns.

    Raises:
        Invalid: A clause after a name, or an argument of a table function, cannot be read, or
            as `find_metadata`.
        Unsupported: It calls a table function that searches a global index.
    """
    words = read_words(text)
    clauses = TableClauses(text, words)
    tree = parsed_query(clauses.blanked())
    if tree is not None:
        found = dict(_named_tables(tree, fold))
        qualifiers = list(_qualifiers(tree))
        metadata = find_metadata(tree, text)
    else:
        found, qualifiers = dict(_guessed_tables(words, fold)), []
        metadata = MetadataNames()
    places = {word.start: number for number, word in enumerate(words)}
    references = [
        Reference(call.parts, call.start, call.end, is_bare=True, function=call.option)
        for call in clauses.functions
    ]
    for (start, end), (parts, has_alias) in found.items():
        if start not in places:
            continue
        before = [word.text.upper() for word in words[: places[start]][-2:]]
        bare = before[-1:] == ["TABLE"] or before == ["TABLE", "("]
        moment, options, last = clauses.after(end)
        named = tuple(metadata.columns.get(start, ()))
        references.append(
            Reference(parts, start, last, bare, has_alias, moment, options, metadata=named)
        )
    unread = clauses.unread()
    if unread is not None:
        raise Invalid(f"'{unread}' does not follow the name of a table")
    return sorted(references, key=lambda each: each.start), qualifiers, metadata


def _named_tables(
    tree: exp.Expr, fold: Callable[[str], str]
) -> Iterator[tuple[tuple[int, int], tuple[tuple[str, ...], bool]]]:
    for table in tree.find_all(exp.Table):
        parts = table.parts
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            continue
        # The places in a hint are counted from its own beginning.
        if any("start" not in part.meta for part in parts) or table.find_ancestor(exp.Hint):
            continue
        names = tuple(part.name for part in parts)
        if len(names) == 1 and _is_with_name(table, names[0], fold):
            continue
        place = (parts[0].meta["start"], parts[-1].meta["end"] + 1)
        yield place, (names, bool(table.alias))


def _is_with_name(table: exp.Expr, name: str, fold: Callable[[str], str]) -> bool:
    """True if a ``WITH`` around a table gives the name a meaning there."""
    child: exp.Expr = table
    node = table.parent
    inside: exp.CTE | None = None
    while node is not None:
        if isinstance(child, exp.CTE):
            inside = child
        given = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(given, exp.With):
            for cte in given.expressions:
                if cte is inside and not given.args.get("recursive"):
                    break
                if fold(cte.alias) == fold(name):
                    return True
                if cte is inside:
                    break
            if isinstance(node, exp.With):
                # The query that it belongs to was looked at here.
                child, node = node, node.parent
                if node is None:
                    break
                child, node, inside = node, node.parent, None
                continue
        child, node = node, node.parent
    return False


def _qualifiers(tree: exp.Expr) -> Iterator[Qualifier]:
    for column in tree.find_all(exp.Column):
        parts = column.parts[:-1]
        if len(parts) < 2 or any("start" not in part.meta for part in parts):
            continue
        if column.find_ancestor(exp.Hint):
            continue
        yield Qualifier(
            tuple(part.name for part in parts),
            parts[0].meta["start"],
            parts[-1].meta["end"] + 1,
        )


def _guessed_tables(
    words: Sequence[Word], fold: Callable[[str], str]
) -> Iterator[tuple[tuple[int, int], tuple[tuple[str, ...], bool]]]:
    """The names after ``FROM``, ``JOIN`` and ``TABLE``, in a text that sqlglot cannot read.

    A table that is missed is one that Spark does not find: never a wrong answer.
    """
    given = _given_names(words, fold)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.kind is not WordKind.WORD or word.text.upper() not in ("FROM", "JOIN", "TABLE"):
            continue
        while at < len(words) and words[at].is_name:
            first = at
            while at + 2 < len(words) and words[at + 1].text == "." and words[at + 2].is_name:
                at += 2
            at += 1
            parts = tuple(each.text for each in words[first:at:2])
            following = words[at] if at < len(words) else None
            called = following is not None and following.text == "("
            alias = following is not None and (
                following.text.upper() == "AS"
                or (following.is_name and following.text.upper() not in CLAUSE_WORDS)
            )
            if not called and not (len(parts) == 1 and fold(parts[0]) in given):
                yield (words[first].start, words[at - 1].end), (parts, alias)
            if following is None or following.text != ",":
                break
            at += 1


def _given_names(words: Sequence[Word], fold: Callable[[str], str]) -> set[str]:
    """The names before ``AS (``, folded: ``t``, ``t(a, b)``, ``t MAX RECURSION LEVEL 9``."""
    given: set[str] = set()
    texts = [word.text.upper() if word.kind is not WordKind.STRING else "" for word in words]
    for at, word in enumerate(words):
        end = at + 1
        if word.is_name and texts[end : end + 1] == ["("]:
            depth = 0
            while end < len(words):
                depth += (texts[end] == "(") - (texts[end] == ")")
                end += 1
                if not depth:
                    break
        if texts[end : end + 3] == ["MAX", "RECURSION", "LEVEL"]:
            end += 4
        if word.is_name and texts[end : end + 2] == ["AS", "("]:
            given.add(fold(word.text))
    return given
