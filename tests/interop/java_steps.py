"""What a job of another engine does to a table, through Paimon's Java library, and what it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .java_client import FILE_STORE, READ, READER, ROW, SCAN, TABLE, JavaClient

_END = "\x01"


class JavaSteps(JavaClient):
    """Also overwrites, compacts and changes schemas; reads rows as texts, all in one message."""

    # Writing ------------------------------------------------------------------------------------

    def overwrite(self, table: str, data: pa.Table, partition: Mapping[str, str] | None) -> None:
        """Replace a partition's rows, or all of them."""
        handle = self._table_with(table, {"dynamic-partition-overwrite": "false"})
        builder = self._call(TABLE, "newBatchWriteBuilder", handle)
        builder = builder.withOverwrite(dict(partition or {}))
        writer, committer = builder.newWrite(), builder.newCommit()
        writer.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        bucket_of = self._fresh_buckets(handle)
        for row in self._binary_rows(data, ["+I"] * data.num_rows):
            if bucket_of is None:
                writer.write(row)
            else:
                writer.write(row, bucket_of(row))
        committer.commit(writer.prepareCommit())
        writer.close()
        committer.close()

    def _fresh_buckets(self, handle: Any) -> Callable[[Any], int] | None:
        """The bucket of a row of a table with dynamic buckets whose rows are all replaced."""
        if str(self._call(FILE_STORE, "bucketMode", handle).toString()) != "HASH_DYNAMIC":
            return None
        options = self._call(FILE_STORE, "coreOptions", handle)
        assigner = self._jvm.org.apache.paimon.index.SimpleHashBucketAssigner(
            1, 0, options.dynamicBucketTargetRowNum(), -1
        )
        return self._assigned_by(assigner, handle)

    def compact_all(self, table: str) -> None:
        """Compact every bucket fully, whoever else is to compact the table."""
        handle = self._table_with(table, {"write-only": "false"})
        builder = self._call(TABLE, "newBatchWriteBuilder", handle)
        committer = builder.newCommit()
        reader = self._call(FILE_STORE, "newSnapshotReader", handle)
        snapshots = "org.apache.paimon.table.source.snapshot.SnapshotReader"
        found = self._call(snapshots, "bucketEntries", reader)
        writer = builder.newWrite()
        writer.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        for entry in found:
            writer.compact(entry.partition(), entry.bucket(), True)
        committer.commit(writer.prepareCommit())
        writer.close()
        committer.close()

    def alter(self, table: str, *changes: tuple[str, ...]) -> None:
        """Change a schema: ``("add", "x", "INT")``, ``("rename", "x", "y")`` or
        ``("type", "x", "BIGINT")``."""
        kinds = self._jvm.org.apache.paimon.schema.SchemaChange
        types = self._jvm.org.apache.paimon.types.DataTypes
        made = []
        for change in changes:
            match change:
                case ("add", name, kind):
                    made.append(kinds.addColumn(name, _type(types, kind)))
                case ("rename", name, new):
                    made.append(kinds.renameColumn(name, new))
                case ("type", name, kind):
                    made.append(kinds.updateColumnType(name, _type(types, kind)))
                case _:
                    raise ValueError(f"no such change: {change}")
        self._catalog.alterTable(self._identifier(table), made, False)

    def _binary_rows(self, data: pa.Table, names: Sequence[str]) -> Iterator[Any]:
        """Rows with their kinds; each replaces the one before."""
        rows = self._jvm.org.apache.paimon.data
        kind_of = self._jvm.org.apache.paimon.types.RowKind.fromShortString
        kinds = {name: kind_of(name) for name in set(names)}
        row = rows.BinaryRow(data.num_columns)
        fields = rows.BinaryRowWriter(row)
        for values, name in zip(data.to_pylist(), names, strict=True):
            fields.reset()
            for position, column in enumerate(data.schema):
                self._set(fields, position, values[column.name], column.type)
            fields.complete()
            row.setRowKind(kinds[name])
            yield row

    # Reading ------------------------------------------------------------------------------------

    def texts(self, table: str, options: Mapping[str, str] | None = None) -> list[str]:
        """Each row as a text such as ``{1, a, null}``, as Java's casts write it, sorted."""
        handle = self._table_with(table, options or {})
        scan = self._call(TABLE, "newReadBuilder", handle).newScan()
        splits = self._call(f"{SCAN}$Plan", "splits", self._call(SCAN, "plan", scan))
        return sorted(text for _, text in self._row_texts(handle, splits))

    def change_texts(self, table: str) -> list[list[tuple[str, str]]]:
        """A stream's changes from snapshot 1 on, plan by plan: kinds and texts."""
        handle = self._catalog.getTable(self._identifier(table))
        given = self._jvm.java.util.HashMap()
        given.putAll({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
        # Else the columns would be those of the first snapshot.
        stays = "copyWithoutTimeTravel"
        handle = self._call(FILE_STORE, stays, handle, ("java.util.Map", given))
        scan = self._call(TABLE, "newReadBuilder", handle).newStreamScan()
        found = self._call(TABLE, "latestSnapshot", handle)
        latest = int(found.get().id()) if found.isPresent() else 0
        plans: list[list[tuple[str, str]]] = []
        while (scan.checkpoint() or 0) <= latest:
            splits = self._call(f"{SCAN}$Plan", "splits", self._call(SCAN, "plan", scan))
            plans.append(self._row_texts(handle, splits) if len(splits) else [])
        return plans

    def _row_texts(self, handle: Any, splits: Any) -> list[tuple[str, str]]:
        lang, paimon = self._jvm.java.lang, self._jvm.org.apache.paimon
        row_type = self._call(TABLE, "rowType", handle)
        read = self._call(TABLE, "newReadBuilder", handle).newRead()
        scratch = paimon.disk.IOManager.create(str(self._scratch))
        read.withIOManager(scratch)
        reader = self._call(READ, "createReader", read, ("java.util.List", splits))
        lookup, method_type = lang.invoke.MethodHandles.publicLookup(), lang.invoke.MethodType
        proxy = lang.invoke.MethodHandleProxies.asInterfaceInstance
        plain = lang.Class.forName("java.lang.Object")
        row_class = lang.Class.forName(ROW)

        def handle_of(owner: str, name: str, result: Any, *kinds: Any) -> Any:
            classes = self._gateway.new_array(lang.Class, len(kinds))
            for at, kind in enumerate(kinds):
                classes[at] = kind
            return lookup.findVirtual(
                lang.Class.forName(owner), name, method_type.methodType(result, classes)
            )

        serializer = paimon.data.serializer.InternalRowSerializer(row_type)
        name = "org.apache.paimon.data.serializer.InternalRowSerializer"
        copy = handle_of(name, "copy", row_class, row_class).bindTo(serializer)
        rows = self._jvm.java.util.ArrayList()
        add = handle_of("java.util.ArrayList", "add", lang.Boolean.TYPE, plain).bindTo(rows)
        kept = lang.invoke.MethodHandles.filterReturnValue(
            copy, add.asType(method_type.methodType(lang.Boolean.TYPE, row_class))
        )
        consumer = proxy(lang.Class.forName("java.util.function.Consumer"), kept)
        kind = ("java.util.function.Consumer", consumer)
        self._call(READER, "forEachRemaining", reader, kind)
        cast = paimon.casting.CastExecutors.resolve(row_type, paimon.types.DataTypes.STRING())
        text_of = handle_of("org.apache.paimon.casting.CastExecutor", "cast", plain, plain).bindTo(
            cast
        )
        kind_of = handle_of(
            ROW, "getRowKind", lang.Class.forName("org.apache.paimon.types.RowKind")
        )
        return list(
            zip(
                [_KINDS[each] for each in self._joined(rows, kind_of)],
                self._joined(rows, text_of),
                strict=True,
            )
        )

    def _joined(self, values: Any, function: Any) -> list[str]:
        lang, streams = self._jvm.java.lang, self._jvm.java.util.stream
        lookup, method_type = lang.invoke.MethodHandles.publicLookup(), lang.invoke.MethodType
        as_text = lookup.findStatic(
            lang.Class.forName("java.lang.String"),
            "valueOf",
            method_type.methodType(
                lang.Class.forName("java.lang.String"), lang.Class.forName("java.lang.Object")
            ),
        )
        plain = lang.Class.forName("java.lang.Object")
        both = lang.invoke.MethodHandles.filterReturnValue(
            function.asType(method_type.methodType(plain, plain)), as_text
        )
        made = lang.invoke.MethodHandleProxies.asInterfaceInstance(
            lang.Class.forName("java.util.function.Function"), both
        )
        if values.isEmpty():
            return []
        found = self._call(
            "java.util.stream.Stream", "map", values.stream(), ("java.util.function.Function", made)
        )
        text = self._call(
            "java.util.stream.Stream",
            "collect",
            found,
            ("java.util.stream.Collector", streams.Collectors.joining(_END)),
        )
        return str(text).split(_END)


_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}


def _type(types: Any, name: str) -> Any:
    if name.startswith("DECIMAL"):
        precision, scale = name.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return types.DECIMAL(int(precision), int(scale))
    return getattr(types, name)()
