"""The parser of Spark SQL: tokens, and the tree of a query with the names in it.

It reads what Spark's grammar reads (``SqlBaseParser.g4``), as far as names, calls and queries in
each other go; Spark reads the rest.
"""

from headwater.spark.sql.parser.cursor import Cursor, UnsupportedSyntax
from headwater.spark.sql.parser.queries import QueryParser
from headwater.spark.sql.parser.tokens import Token, TokenType, string_value, tokenize

__all__ = [
    "Cursor",
    "QueryParser",
    "Token",
    "TokenType",
    "UnsupportedSyntax",
    "string_value",
    "tokenize",
]
