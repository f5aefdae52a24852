"""Arrow columns gathered from the raw bytes of a log, all rows at once.

Functions of columns take the bytes of each row's value, and which rows are null. None of them loops
over rows in Python, and none of them depends on a source's protocol.
"""

from headwater.cdc.columns.bad_dates import BadDates, DateRule, bad_date
from headwater.cdc.columns.decimals import decimal_column
from headwater.cdc.columns.gather import (
    Cells,
    LogBytes,
    Nulls,
    Offsets,
    float_column,
    integer_column,
    primitive_array,
    signed_integers,
    unsigned_integers,
    values_at_even_places,
)
from headwater.cdc.columns.temporal import (
    date_column,
    date_text_column,
    datetime_column,
    datetime_text_column,
    time_column,
    timestamp_column,
    timestamp_text_column,
    year_column,
)
from headwater.cdc.columns.text import (
    Charset,
    binary_column,
    cell_bytes_column,
    decode_text,
    fixed_binary_column,
    spaced_column,
    text_column,
)

__all__ = [
    "BadDates",
    "Cells",
    "Charset",
    "DateRule",
    "LogBytes",
    "Nulls",
    "Offsets",
    "bad_date",
    "binary_column",
    "cell_bytes_column",
    "date_column",
    "date_text_column",
    "datetime_column",
    "datetime_text_column",
    "decimal_column",
    "decode_text",
    "fixed_binary_column",
    "float_column",
    "integer_column",
    "primitive_array",
    "signed_integers",
    "spaced_column",
    "text_column",
    "time_column",
    "timestamp_column",
    "timestamp_text_column",
    "unsigned_integers",
    "values_at_even_places",
    "year_column",
]
