"""The format and the codec of new data files, as a table's options have them.

Source: ``DataFilePathFactory.java``, ``KeyValueFileWriterFactory.java``, ``AppendOnlyWriter.java``,
``AvroFileFormat.java``, ``OrcWriterFactory.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.errors import Unsupported
from headwater.storage.formats.avro import AVRO
from headwater.storage.formats.orc import ORC
from headwater.storage.formats.protocol import DataFileFormat
from headwater.storage.formats.registry import format_named
from headwater.storage.formats.system_columns import data_file_fields
from headwater.storage.options import CLUSTERING_COLUMNS, TableOptions
from headwater.storage.options.statistics_mode import StatisticsMode
from headwater.storage.schema.blob_columns import (
    columns_in_blob_files,
    is_plain_blob,
    refuse_unwritable_blobs,
)
from headwater.storage.schema.file_indexes import written_file_indexes
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.vector_columns import (
    VECTOR_FILE_FORMAT,
    VECTOR_MARK,
    columns_in_vector_files,
)
from headwater.storage.types.data_type import to_arrow

__all__ = ["FileEncoding", "file_encoding", "refuse_formats"]

_CHANGELOG_FORMAT = "changelog-file.format"
_PER_LEVEL = "file.format.per.level"
# The options of formats that go before all those that name a codec.
_OWN_CODECS = {AVRO.name: "avro.codec", ORC.name: "orc.compress"}
# HadoopCompressionType.java: the others are called what they are.
_CODEC_EXTENSIONS = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst"}
# A level that no option names.
_OTHER_LEVEL = -1


@dataclass(frozen=True)
class FileEncoding:
    """The bytes that rows become.

    Attributes:
        format: The format.
        compression: The codec, as ``file.compression`` names it.
        keys_compression: That of the keys of maps, which an option of the format does not change.
        zstd_level: The level of the codec ``zstd``.
        block_bytes: Bytes of a row group; None is the format's default.
        statistics_mode: The part of its columns' ranges that the manifest keeps, see
            `StatisticsMode`.
        extension: The end of its name, with the dot.
    """

    format: DataFileFormat
    compression: str
    keys_compression: str
    zstd_level: int
    block_bytes: int | None
    statistics_mode: str
    extension: str


def file_encoding(
    schema: TableSchema, level: int, *, changelog: bool, vectors: bool = False
) -> FileEncoding:
    """The encoding of a new file.

    A changelog file's own options go before those of a level, and those before the table's. Only
    files of primary-key tables have levels and changelogs.

    Args:
        schema: The table's schema.
        level: The file's LSM level.
        changelog: True for a changelog file.
        vectors: True for a file of vectors alone.

    Raises:
        Unsupported: Headwater does not write the format.
        Invalid: An option is malformed.
    """
    options = schema.table_options
    name, option, compression = options.file_format, "file.format", options.file_compression
    statistics = options.statistics_mode
    if schema.primary_keys:
        levels = options.file_format_per_level
        if level in levels:
            name, option = levels[level], _PER_LEVEL
        compression = options.file_compression_per_level.get(level, compression)
        statistics = options.statistics_mode_per_level.get(level, statistics)
        if changelog and options.changelog_file_format is not None:
            name, option = options.changelog_file_format, _CHANGELOG_FORMAT
        if changelog and options.changelog_file_compression is not None:
            compression = options.changelog_file_compression
        if changelog and options.changelog_statistics_mode is not None:
            statistics = options.changelog_statistics_mode
    if vectors:
        name, option = schema.options[VECTOR_FILE_FORMAT], VECTOR_FILE_FORMAT
    found = format_named(name, option)
    own_codec = _OWN_CODECS.get(found.name, "")
    return FileEncoding(
        found,
        schema.options.get(own_codec, compression).strip().lower(),
        compression,
        options.zstd_level,
        options.file_block_size,
        statistics,
        (VECTOR_MARK if vectors else "") + _extension(options, found.name),
    )


def _extension(options: TableOptions, name: str) -> str:
    codec = options.file_compression
    if not options.names_codec_of_files or codec == "none":
        return f".{name}"
    return f".{_CODEC_EXTENSIONS.get(codec, codec)}.{name}"


def refuse_formats(schema: TableSchema) -> None:
    """Refuse a table whose files Headwater could not write: before any of them is begun.

    Raises:
        Unsupported: There is no such format, it cannot hold a column or has no such codec, rows
            have no order by which files are to be sorted, or Headwater does not write such a file
            index; the message names it.
        Invalid: An option is malformed.
    """
    written_file_indexes(schema.options, schema.fields)
    refuse_unwritable_blobs(schema)
    _refuse_unordered(schema)
    vectors = columns_in_vector_files(schema)
    apart = {*columns_in_blob_files(schema), *vectors}
    fields = [item for item in data_file_fields(schema) if item.name not in apart]
    if vectors:
        encoding = file_encoding(schema, _OTHER_LEVEL, changelog=False, vectors=True)
        encoding.format.refuse(list(schema.columns(vectors)), encoding.compression)
    options = schema.table_options
    levels = {
        _OTHER_LEVEL,
        *options.file_format_per_level,
        *options.file_compression_per_level,
        *options.statistics_mode_per_level,
    }
    for level in levels if schema.primary_keys else {_OTHER_LEVEL}:
        for changelog in (False, True):
            encoding = file_encoding(schema, level, changelog=changelog)
            encoding.format.refuse(fields, encoding.compression)
            StatisticsMode.parse(encoding.statistics_mode)


def _refuse_unordered(schema: TableSchema) -> None:
    """Refuse rows that no compaction of ours would bring to level 1, where readers look for them.

    With ``write-only`` another engine compacts, which may know an order.
    """
    options = schema.table_options
    if not schema.primary_keys or not options.overrides_key_order or options.write_only:
        return
    for item in schema.columns(options.clustering_columns):
        if is_plain_blob(item.type) or pa.types.is_nested(to_arrow(item.type)):
            raise Unsupported(
                f"'pk-clustering-override': rows have no order by column '{item.name}' of type "
                f"{item.type}, which '{CLUSTERING_COLUMNS[0]}' names; name others, or set "
                "'write-only' = 'true' and compact with another engine"
            )
