"""The names in statements as our parser reads them, and as Spark's own does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.spark.errors import unlogged_errors
from headwater.spark.sql.parser.tree import (
    Call,
    Expression,
    From,
    IdentifierClause,
    Lambda,
    Name,
    Query,
    QueryBody,
    Relation,
    SetOperation,
    Subquery,
    TableName,
    expressions_of,
)

# Spark has expressions of their own for these, and no function call.
_SPECIAL_FORMS = frozenset(
    (
        "any_value", "current_date", "current_path", "current_time", "current_timestamp",
        "current_user", "date_add", "date_diff", "dateadd", "datediff", "extract", "first", "last",
        "localtime", "overlay", "position", "session_user", "struct", "substr", "substring",
        "timediff", "timestampadd", "timestampdiff", "trim", "user",
    )
)  # fmt: skip
# These are in the list of an expression's children, too.
_REPEATED = frozenset(
    {
        ("CaseWhen", "branches"),
        ("CaseWhen", "elseValue"),
        ("UnresolvedFunction", "filter"),
        ("AggregateExpression", "filter"),
    }
)
# Spark's parser makes calls of these functions from operators and clauses.
_OF_OPERATORS = frozenset({"between", "explode"})
_COMPUTED = "IDENTIFIER"


@dataclass
class Names:
    """The names of relations, functions, table functions and common table expressions.

    Spark's plans have some calls twice, such as those of a ``LIMIT``: their number is not compared.
    """

    relations: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    table_functions: Counter[str] = field(default_factory=Counter)
    common_tables: Counter[str] = field(default_factory=Counter)


def sparks_names(spark: SparkSession, statement: str) -> Names | None:
    """The names in a statement by Spark's parser; None if it is not one to Spark."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    with unlogged_errors():
        try:
            plan = parser.parsePlan(statement)
        except (PySparkException, Py4JError):
            return None
    names = Names()
    _add_json(json.loads(plan.toJSON()), names)
    return names


def _add_json(node: object, names: Names) -> None:
    if isinstance(node, list):
        for item in node:
            _add_json(item, names)
    if not isinstance(node, dict):
        return
    class_name = str(node.get("class", "")).rsplit(".", 1)[-1]
    match class_name:
        case "UnresolvedRelation":
            names.relations[node["multipartIdentifier"]] += 1
        case "PlanWithUnresolvedIdentifier":
            names.relations[_COMPUTED] += 1
        case "UnresolvedFunction":
            _add_function(names.functions, node["nameParts"].strip("[]"))
        case "UnresolvedTableValuedFunction":
            names.table_functions[node["name"]] += 1
        case "UnresolvedWith":
            names.common_tables.update(each["_1"] for each in node["cteRelations"])
    for key, value in node.items():
        if (class_name, key) not in _REPEATED:
            _add_json(value, names)


def our_names(query: Query) -> Names:
    """The names in a query by our parser."""
    names = Names()
    _Collector(names).query(query)
    return names


def _add_function(functions: set[str], name: str) -> None:
    if name.lower() not in _SPECIAL_FORMS | _OF_OPERATORS:
        functions.add(name.lower())


def _listed(name: Name | IdentifierClause) -> str:
    return f"[{', '.join(name.parts)}]" if isinstance(name, Name) else _COMPUTED


class _Collector:
    def __init__(self, names: Names) -> None:
        self._names = names
        # FROM t SELECT … SELECT … has its relations once.
        self._seen: set[int] = set()

    def query(self, query: Query) -> None:
        for table in query.common_tables:
            self._names.common_tables[table.name.parts[0]] += 1
            self.query(table.query)
        self._body(query.body)
        self._expressions(query.expressions)

    def _body(self, body: QueryBody) -> None:
        if isinstance(body, Query):
            self.query(body)
        elif isinstance(body, SetOperation):
            for operand in body.operands:
                self._body(operand)
        else:
            if body.source is not None and id(body.source) not in self._seen:
                self._seen.add(id(body.source))
                self._from(body.source)
            self._expressions(body.columns)
            self._expressions(body.expressions)

    def _from(self, source: From) -> None:
        for relation in source.relations:
            self._relation(relation)
        self._expressions(source.expressions)

    def _relation(self, relation: Relation) -> None:
        match relation.source:
            case TableName(name=name):
                self._names.relations[_listed(name)] += 1
            case Query() as query:
                self.query(query)
            case Call() as call:
                self._names.table_functions[_listed(call.name)] += 1
                self._call(call)
            case From() as source:
                self._from(source)
            case expressions:
                self._expressions(expressions)

    def _expressions(self, expressions: Iterable[Expression]) -> None:
        for expression in expressions:
            for item in expression.items:
                match item:
                    case Call(name=Name() as name):
                        _add_function(self._names.functions, _listed(name).strip("[]"))
                        self._call(item)
                    case Call():
                        self._call(item)
                    case Subquery(query=query):
                        self.query(query)
                    case Lambda(body=body):
                        self._expressions([body])
                    case IdentifierClause(expression=inner):
                        self._expressions([inner])
                    case _:
                        pass

    def _call(self, call: Call) -> None:
        self._expressions(expressions_of(call))
        for table in call.tables:
            if isinstance(table.source, Query):
                self.query(table.source)
            else:
                self._names.relations[_listed(table.source.name)] += 1
