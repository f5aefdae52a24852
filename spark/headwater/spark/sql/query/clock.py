"""The current time in a query, which is another one when the query runs."""

from __future__ import annotations

import pyspark.sql.types as st

from headwater.spark.sql.statement import WordKind, read_words

__all__ = ["CLOCK", "without_clock"]

CLOCK = st.StructType(
    [
        st.StructField("d", st.DateType()),
        st.StructField("t", st.TimestampType()),
        st.StructField("n", st.TimestampNTZType()),
        st.StructField("s", st.LongType()),
    ]
)
"""The columns of a table that stands for the current time."""

_COLUMN = {
    "current_date": "d",
    "curdate": "d",
    "current_timestamp": "t",
    "now": "t",
    "localtimestamp": "n",
    "unix_timestamp": "s",
}
# They need no brackets, and a column may have such a name.
_BARE = {"current_date", "current_timestamp", "current_time", "localtimestamp"}
_OTHER = {"current_time"}


def without_clock(text: str, place: str) -> str | None:
    """A query that asks a table for the current time, so that Spark does not put one in.

    Files may be left out only by what stays true until the query runs.

    Args:
        text: A query.
        place: The table, as it is to be written.

    Returns:
        None if it cannot be told what the text means.
    """
    words = read_words(text)
    pieces: list[str] = []
    at = 0
    for number, word in enumerate(words):
        name = word.text.lower()
        if word.kind is not WordKind.WORD or (name not in _COLUMN and name not in _OTHER):
            continue
        if number and words[number - 1].text == ".":
            continue
        after = [each.text for each in words[number + 1 : number + 3]]
        if after == ["(", ")"] and name in _COLUMN:
            pieces += [text[at : word.start], f"(SELECT max({_COLUMN[name]}) FROM {place})"]
            at = words[number + 2].end
        elif name in _BARE:
            return None
    return "".join([*pieces, text[at:]])
