"""MySQL 8.4 and later and MariaDB 10.11 and later as sources: servers, tables, and their log."""

from headwater.cdc.mysql.compression import expand
from headwater.cdc.mysql.events import (
    Event,
    EventDecoder,
    EventType,
    FormatDescription,
    Query,
    Rotation,
    parse_format_description,
    parse_query,
    parse_rotation,
    read_log_file,
)
from headwater.cdc.mysql.log_values import log_values
from headwater.cdc.mysql.packed_rows import PackedRows, RowsSlab, is_rows_event, table_number
from headwater.cdc.mysql.rows import RowBatch, decode_rows
from headwater.cdc.mysql.table_map import (
    ColumnShape,
    ColumnType,
    TableMap,
    TableShape,
    parse_table_map,
)
from headwater.cdc.mysql.values import DecodeOptions, arrow_type

__all__ = [
    "ColumnShape",
    "ColumnType",
    "DecodeOptions",
    "Event",
    "EventDecoder",
    "EventType",
    "FormatDescription",
    "PackedRows",
    "Query",
    "Rotation",
    "RowBatch",
    "RowsSlab",
    "TableMap",
    "TableShape",
    "arrow_type",
    "decode_rows",
    "expand",
    "is_rows_event",
    "log_values",
    "parse_format_description",
    "parse_query",
    "parse_rotation",
    "parse_table_map",
    "read_log_file",
    "table_number",
]
