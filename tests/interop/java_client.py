"""Paimon's own Java library, driven from Python through Py4J (which PySpark ships).

The library is ``.interop/paimon-java/paimon-bundle-<version>.jar``; Hadoop's classes and Py4J's
gateway come from the JARs in PySpark.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

ROOT = Path(__file__).parents[2]
VERSIONS = ("1.3.1", "1.4.2", "2.0.0")
"""Releases that the tests run: the newest of each line that is in use."""
TABLE = "org.apache.paimon.table.Table"
FILE_STORE = "org.apache.paimon.table.FileStoreTable"
ROW = "org.apache.paimon.data.InternalRow"
SCAN = "org.apache.paimon.table.source.TableScan"
READ = "org.apache.paimon.table.source.TableRead"
READER = "org.apache.paimon.reader.RecordReader"
_EPOCH = dt.datetime(1970, 1, 1)


def bundle(version: str) -> Path:
    """Where a release of the library is, once ``tests/interop/environments`` has fetched it."""
    return ROOT / ".interop" / "paimon-java" / f"paimon-bundle-{version}.jar"


def start_gateway(version: str) -> JavaGateway:
    """A Java process with one release of the library, which dies with this one."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    needed = ["hadoop-client", "slf4j-api", "commons-logging", "log4j", "lz4-java"]
    found = [str(path) for name in needed for path in sorted(jars.glob(f"{name}-*.jar"))]
    py4j = next(jars.glob("py4j-*.jar"))
    home = os.environ.get("JAVA_HOME")
    port, secret = launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join([str(bundle(version)), *found]),
        java_path=str(Path(home, "bin", "java")) if home else "java",
        die_on_exit=True,
        enable_auth=True,
    )
    return JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    )


def label(client: str) -> str:
    """A client's name as a part of tables' names."""
    return re.sub(r"\W", "_", client)


def rest_options(
    gateway: JavaGateway, uri: str, token: str, more: Mapping[str, str] | None = None
) -> Any:
    """Java's options of a catalog behind a server, whose warehouse is ``main``."""
    options = gateway.jvm.org.apache.paimon.options.Options()
    for key, value in {
        "metastore": "rest",
        "uri": uri,
        "warehouse": "main",
        "token.provider": "bear",
        "token": token,
        **(more or {}),
    }.items():
        options.set(key, value)
    return options


def _is_indexed(split: Any) -> bool:
    """True for a split of the rows that an index tells of."""
    return str(split.getClass().getSimpleName()) == "IndexedSplit"


class JavaClient:
    """Creates, writes and reads tables as a Flink or Spark job with Paimon's JAR would."""

    maker = "paimon-java"

    def __init__(
        self,
        gateway: JavaGateway,
        version: str,
        uri: str,
        token: str,
        scratch: Path,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{self.maker}-{version}"
        self.label = label(self.name)
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self._scratch = scratch
        self._methods: dict[tuple[str, str, tuple[str, ...]], Any] = {}
        options = rest_options(gateway, uri, token, more)
        catalogs = self._jvm.org.apache.paimon.catalog
        self._catalog = catalogs.CatalogFactory.createCatalog(
            catalogs.CatalogContext.create(options)
        )

    def _identifier(self, table: str) -> Any:
        return self._jvm.org.apache.paimon.catalog.Identifier.fromString(table)

    def _call(self, interface: str, method: str, target: Any, *arguments: tuple[str, Any]) -> Any:
        """Call a public interface's method on an object whose class is not public.

        Py4J sees only public classes' methods. Each argument comes with its type's name.
        """
        kinds = tuple(kind for kind, _ in arguments)
        found = self._methods.get((interface, method, kinds))
        if found is None:
            # Each of these is a message to the other process; rows are read value by value.
            found = self._method(interface, method, kinds)
            self._methods[interface, method, kinds] = found
        values = self._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for at, (_, value) in enumerate(arguments):
            values[at] = value
        return found.invoke(target, values)

    def _method(self, interface: str, method: str, kinds: Sequence[str]) -> Any:
        lang = self._jvm.java.lang
        classes = self._gateway.new_array(lang.Class, len(kinds))
        for at, kind in enumerate(kinds):
            classes[at] = lang.Long.TYPE if kind == "long" else lang.Class.forName(kind)
        return lang.Class.forName(interface).getMethod(method, classes)

    def create(
        self,
        table: str,
        schema: pa.Schema,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        builder = self._jvm.org.apache.paimon.schema.Schema.newBuilder()
        for column in schema:
            builder.column(column.name, self._data_type(column.type))
        builder.primaryKey(list(primary_keys))
        builder.partitionKeys(list(partition_keys))
        builder.options(dict(options or {}))
        self._catalog.createTable(self._identifier(table), builder.build(), False)

    def _data_type(self, arrow: pa.DataType) -> Any:
        types = self._jvm.org.apache.paimon.types.DataTypes
        if pa.types.is_decimal(arrow):
            return types.DECIMAL(arrow.precision, arrow.scale)
        if pa.types.is_timestamp(arrow):
            return types.TIMESTAMP({"ms": 3, "us": 6, "ns": 9}[arrow.unit])
        name = {
            pa.int32(): "INT",
            pa.int64(): "BIGINT",
            pa.string(): "STRING",
            pa.date32(): "DATE",
            pa.float64(): "DOUBLE",
            pa.bool_(): "BOOLEAN",
        }[arrow]
        return getattr(types, name)()

    def write(
        self,
        table: str,
        data: pa.Table,
        row_kind: str | Sequence[str] = "+I",
        before_commit: Callable[[], object] | None = None,
    ) -> None:
        """One commit of rows of one kind, or of a kind each.

        Args:
            table: The table.
            data: The rows.
            row_kind: Their kind or kinds.
            before_commit: Called when the files are written.
        """
        rows = self._jvm.org.apache.paimon.data
        names = [row_kind] * data.num_rows if isinstance(row_kind, str) else row_kind
        kind_of = self._jvm.org.apache.paimon.types.RowKind.fromShortString
        kinds = {name: kind_of(name) for name in set(names)}
        handle = self._catalog.getTable(self._identifier(table))
        builder = self._call(TABLE, "newBatchWriteBuilder", handle)
        writer, committer = builder.newWrite(), builder.newCommit()
        writer.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        bucket_of = self._bucket_assigner(handle)
        assigner = self._key_assigner(handle, writer)
        row = rows.BinaryRow(data.num_columns)
        fields = rows.BinaryRowWriter(row)
        for values, name in zip(data.to_pylist(), names, strict=True):
            fields.reset()
            for position, column in enumerate(data.schema):
                self._set(fields, position, values[column.name], column.type)
            fields.complete()
            row.setRowKind(kinds[name])
            if assigner is not None:
                assigner.processInput(row)
            elif bucket_of is None:
                writer.write(row)
            else:
                writer.write(row, bucket_of(row))
        if assigner is not None:
            assigner.close()
        written = writer.prepareCommit()
        if before_commit is not None:
            before_commit()
        committer.commit(written)
        writer.close()
        committer.close()

    def write_columns(self, table: str, data: pa.Table, first_row_id: int) -> None:
        """One commit of some columns of the rows from an id on, in a file of their own."""
        rows = self._jvm.org.apache.paimon.data
        handle = self._catalog.getTable(self._identifier(table))
        builder = self._call(TABLE, "newBatchWriteBuilder", handle)
        kind = self._call(TABLE, "rowType", handle).project(data.column_names)
        writer, committer = builder.newWrite().withWriteType(kind), builder.newCommit()
        row = rows.BinaryRow(data.num_columns)
        fields = rows.BinaryRowWriter(row)
        for values in data.to_pylist():
            fields.reset()
            for position, column in enumerate(data.schema):
                self._set(fields, position, values[column.name], column.type)
            fields.complete()
            writer.write(row)
        messages = writer.prepareCommit()
        for message in messages:
            files = message.newFilesIncrement().newFiles()
            for number in range(len(files)):
                files[number] = files[number].assignFirstRowId(first_row_id)
        committer.commit(messages)
        writer.close()
        committer.close()

    def _key_assigner(self, handle: Any, writer: Any) -> Any:
        """What finds the partitions and buckets of keys, as Flink and Spark call it."""
        if str(self._call(FILE_STORE, "bucketMode", handle).toString()) != "KEY_DYNAMIC":
            return None
        keys = self._jvm.org.apache.paimon.crosspartition
        scratch = self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch))
        assigner = keys.GlobalIndexAssigner(handle)
        writes = "org.apache.paimon.table.sink.TableWrite"
        collector = self._function(
            "java.util.function.BiConsumer", writes, "write", writer, (ROW, "int")
        )
        assigner.open(1 << 20, None, scratch, 1, 0, collector)
        keeper = self._function(
            "java.util.function.Consumer", str(assigner.getClass().getName()), "bootstrapKey",
            assigner, (ROW,),
        )  # fmt: skip
        keys.IndexBootstrap(handle).bootstrap(1, 0, keeper)
        assigner.endBoostrap(False)
        return assigner

    def _function(
        self, interface: str, owner: str, method: str, target: Any, kinds: Sequence[str]
    ) -> Any:
        """A method without a result, as an object of a functional interface."""
        lang = self._jvm.java.lang
        classes = self._gateway.new_array(lang.Class, len(kinds))
        for at, kind in enumerate(kinds):
            classes[at] = lang.Integer.TYPE if kind == "int" else lang.Class.forName(kind)
        handles = lang.invoke.MethodHandles.publicLookup()
        found = handles.findVirtual(
            lang.Class.forName(owner),
            method,
            lang.invoke.MethodType.methodType(lang.Void.TYPE, classes),
        )
        return lang.invoke.MethodHandleProxies.asInterfaceInstance(
            lang.Class.forName(interface), found.bindTo(target)
        )

    def _bucket_assigner(self, handle: Any) -> Callable[[Any], int] | None:
        """The bucket of a row of a table with dynamic buckets, as Flink and Spark ask for it."""
        if str(self._call(FILE_STORE, "bucketMode", handle).toString()) != "HASH_DYNAMIC":
            return None
        options = self._call(FILE_STORE, "coreOptions", handle)
        assigner = self._jvm.org.apache.paimon.index.HashBucketAssigner(
            self._call(FILE_STORE, "snapshotManager", handle),
            "interop",
            self._call(FILE_STORE, "store", handle).newIndexFileHandler(),
            1,
            1,
            0,
            options.dynamicBucketTargetRowNum(),
            -1,
        )
        return self._assigned_by(assigner, handle)

    def _assigned_by(self, assigner: Any, handle: Any) -> Callable[[Any], int]:
        """The bucket of a row by the keys that an assigner of Paimon's asks for."""
        extractor = self._jvm.org.apache.paimon.table.sink.RowPartitionKeyExtractor(
            self._call(FILE_STORE, "schema", handle)
        )

        def bucket_of(row: Any) -> int:
            hashed = extractor.trimmedPrimaryKey(row).hashCode()
            return int(assigner.assign(extractor.partition(row), hashed))

        return bucket_of

    def compact(self, table: str, bucket: int = 0) -> None:
        """Compact a bucket of a table without partitions fully, as one commit."""
        handle = self._catalog.getTable(self._identifier(table))
        builder = self._call(TABLE, "newBatchWriteBuilder", handle)
        writer, committer = builder.newWrite(), builder.newCommit()
        writer.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        writer.compact(self._jvm.org.apache.paimon.data.BinaryRow.EMPTY_ROW, bucket, True)
        committer.commit(writer.prepareCommit())
        writer.close()
        committer.close()

    def compact_joined(self, table: str, *, blobs: bool = False) -> None:
        """Compact a table with data evolution as Spark and Flink do, as one commit."""
        handle = self._catalog.getTable(self._identifier(table))
        work = self._jvm.org.apache.paimon.append.dataevolution
        snapshot = self._call(FILE_STORE, "snapshotManager", handle).latestSnapshot()
        tasks = work.DataEvolutionCompactCoordinator(handle, blobs, False, snapshot).plan()
        messages = self._jvm.java.util.ArrayList()
        for task in tasks:
            messages.add(task.doCompact(handle, "compaction"))
        prepared = work.DataEvolutionCompactionCommitPreparation(handle, snapshot)
        messages.addAll(prepared.prepare(messages))
        committer = self._call(TABLE, "newBatchWriteBuilder", handle).newCommit()
        committer.commit(messages)
        committer.close()

    def copy(self, source: str, target: str) -> None:
        """Write the rows of one table into another, in one commit; no value passes Python."""
        builder = self._call(
            TABLE, "newReadBuilder", self._catalog.getTable(self._identifier(source))
        )
        plan = self._call(SCAN, "plan", builder.newScan())
        splits = self._call(f"{SCAN}$Plan", "splits", plan)
        reader = self._call(READ, "createReader", builder.newRead(), ("java.util.List", splits))
        rows = self._call(READER, "toCloseableIterator", reader)
        handle = self._catalog.getTable(self._identifier(target))
        written = self._call(TABLE, "newBatchWriteBuilder", handle)
        writer, committer = written.newWrite(), written.newCommit()
        writer.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        while self._call("java.util.Iterator", "hasNext", rows):
            writer.write(self._call("java.util.Iterator", "next", rows))
        committer.commit(writer.prepareCommit())
        for each in (rows, writer, committer):
            self._call("java.lang.AutoCloseable", "close", each)

    def _set(self, fields: Any, position: int, value: object, arrow: pa.DataType) -> None:
        rows = self._jvm.org.apache.paimon.data
        match value:
            case None:
                fields.setNullAt(position)
            case str():
                fields.writeString(position, rows.BinaryString.fromString(value))
            case Decimal():
                number = self._jvm.java.math.BigDecimal(str(value))
                decimal = rows.Decimal.fromBigDecimal(number, arrow.precision, arrow.scale)
                fields.writeDecimal(position, decimal, arrow.precision)
            case dt.datetime():
                micros = (value - _EPOCH) // dt.timedelta(microseconds=1)
                fields.writeTimestamp(position, rows.Timestamp.fromMicros(micros), 6)
            case dt.date():
                fields.writeInt(position, (value - _EPOCH.date()).days)
            case bool():
                fields.writeBoolean(position, value)
            case int() if arrow == pa.int64():
                fields.writeLong(position, value)
            case int():
                fields.writeInt(position, value)
            case float():
                fields.writeDouble(position, value)
            case bytes():
                fields.writeBlob(position, rows.BlobData(value))
            case _:
                raise TypeError(f"no way to write {value!r}")

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        handle = self._catalog.getTable(self._identifier(table))
        if options:
            given = self._jvm.java.util.HashMap()
            given.putAll(dict(options))
            handle = self._call(TABLE, "copy", handle, ("java.util.Map", given))
        builder = self._call(TABLE, "newReadBuilder", handle)
        if columns:
            # A catalog that may hide columns is asked for those of the scan.
            builder = builder.withProjection(self._positions(handle, columns))
        plan = self._call(SCAN, "plan", builder.newScan())
        return self._rows(handle, self._call(f"{SCAN}$Plan", "splits", plan), columns)

    def _positions(self, handle: Any, columns: Sequence[str]) -> Any:
        names = [field.name() for field in self._call(TABLE, "rowType", handle).getFields()]
        return _integers(self._jvm, [names.index(column) for column in columns])

    def read_where(
        self, table: str, column: str, test: str, *values: object
    ) -> tuple[int, pa.Table]:
        """The files that a scan with a condition plans, and the rows that it gives.

        Args:
            table: The table.
            column: A column of type INT, DOUBLE or STRING.
            test: A method of ``PredicateBuilder``, such as ``equal`` or ``in``.
            values: What the method takes besides the column.
        """
        handle, splits, condition = self._planned(table, column, test, values)
        inner = [each.dataSplit() if _is_indexed(each) else each for each in splits]
        files = sum(len(split.dataFiles()) for split in inner)
        return files, self._rows(handle, splits, None, condition=condition)

    def uses_index(self, table: str, column: str, test: str, *values: object) -> bool:
        """True if a scan with a condition, as of `read_where`, asks an index of whole buckets."""
        _, splits, _ = self._planned(table, column, test, values)
        return any(_is_indexed(split) for split in splits)

    def _planned(
        self, table: str, column: str, test: str, values: Sequence[object]
    ) -> tuple[Any, Any, Any]:
        """A table, the splits of a scan with a condition, and the condition."""
        handle = self._catalog.getTable(self._identifier(table))
        row_type = self._call(TABLE, "rowType", handle)
        text = self._jvm.org.apache.paimon.data.BinaryString.fromString
        literals = [text(value) if isinstance(value, str) else value for value in values]
        builder = self._jvm.org.apache.paimon.predicate.PredicateBuilder(row_type)
        at = builder.indexOf(column)
        arguments = [literals] if test in ("in", "notIn") else literals
        condition = getattr(builder, test)(at, *arguments)
        reading = self._call(TABLE, "newReadBuilder", handle).withFilter(condition)
        plan = self._call(SCAN, "plan", reading.newScan())
        return handle, self._call(f"{SCAN}$Plan", "splits", plan), condition

    def changes(self, table: str, options: Mapping[str, str] | None = None) -> list[pa.Table]:
        """A stream's changes so far, plan by plan, each with a column ``_ROW_KIND``.

        Args:
            table: The table.
            options: Table options of the stream; it starts at snapshot 1 without any.
        """
        handle = self._catalog.getTable(self._identifier(table))
        start = self._jvm.java.util.HashMap()
        start.putAll(dict(options or {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}))
        handle = self._call(TABLE, "copy", handle, ("java.util.Map", start))
        scan = self._call(TABLE, "newReadBuilder", handle).newStreamScan()
        latest = int(self._call(TABLE, "latestSnapshot", handle).get().id())
        found: list[pa.Table] = []
        while (scan.checkpoint() or 0) <= latest:
            splits = self._call(f"{SCAN}$Plan", "splits", self._call(SCAN, "plan", scan))
            if len(splits):
                found.append(self._rows(handle, splits, None, row_kinds=True))
        return found

    def _rows(
        self,
        handle: Any,
        splits: Any,
        columns: Sequence[str] | None,
        *,
        row_kinds: bool = False,
        condition: Any = None,
    ) -> pa.Table:
        row_type = self._call(TABLE, "rowType", handle)
        fields = {field.name(): field for field in row_type.getFields()}
        names = list(columns or fields)
        builder = self._call(TABLE, "newReadBuilder", handle)
        builder = builder.withProjection(self._positions(handle, names))
        read = builder.newRead()
        if condition is not None:
            read = builder.withFilter(condition).newRead()
            read = self._call(READ, "executeFilter", read)
        reader = self._call(READ, "createReader", read, ("java.util.List", splits))
        return self._decoded(reader, {name: fields[name] for name in names}, row_kinds)

    def read_with_postponed(self, table: str) -> pa.Table:
        """The rows of a table with one bucket, and of one writer's that wait, merged."""
        handle = self._table_with(table, {"postpone.merge-on-read": "true"})
        source = self._jvm.org.apache.paimon.table.source
        builder = source.PostponeMergeReadBuilder.create(handle, None).get()
        plan, read = builder.plan(), builder.newRead()
        (waiting,) = plan.postponeSplits()
        (real,) = plan.realSplits()
        read.withIOManager(self._jvm.org.apache.paimon.disk.IOManager.create(str(self._scratch)))
        reader = read.createBucketMergeReader(real, read.createPostponeReader(waiting))
        row_type = self._call(TABLE, "rowType", handle)
        return self._decoded(reader, {field.name(): field for field in row_type.getFields()})

    def _decoded(self, reader: Any, fields: Mapping[str, Any], row_kinds: bool = False) -> pa.Table:
        names = list(fields)
        getters = [
            self._jvm.org.apache.paimon.data.InternalRow.createFieldGetter(fields[name].type(), at)
            for at, name in enumerate(names)
        ]
        found: dict[str, list[object]] = {name: [] for name in names}
        kinds: list[str] = []
        rows = self._call(READER, "toCloseableIterator", reader)
        roots = {name: fields[name].type().getTypeRoot().toString() for name in names}
        while self._call("java.util.Iterator", "hasNext", rows):
            row = self._call("java.util.Iterator", "next", rows)
            if row_kinds:
                kinds.append(str(self._call(ROW, "getRowKind", row).shortString()))
            for name, getter in zip(names, getters, strict=True):
                value = self._call(f"{ROW}$FieldGetter", "getFieldOrNull", getter, (ROW, row))
                found[name].append(_from_java(value, roots[name]))
        self._call("java.lang.AutoCloseable", "close", rows)
        table = pa.table(found)
        return table.append_column("_ROW_KIND", pa.array(kinds)) if row_kinds else table

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Each column's name and type, as SQL names it."""
        row_type = self._call(TABLE, "rowType", self._catalog.getTable(self._identifier(table)))
        return [(str(field.name()), str(field.type())) for field in row_type.getFields()]

    def partitions(self, table: str) -> dict[str, int]:
        """Records of each partition, by its name."""
        found = self._catalog.listPartitions(self._identifier(table))
        return {
            "/".join(f"{column}={value}" for column, value in partition.spec().items()): int(
                partition.recordCount()
            )
            for partition in found
        }

    def expire_partitions(self, table: str) -> list[dict[str, str]]:
        """Drop the partitions whose time is over, as Paimon's procedure does."""
        handle = self._table_with(table, {"partition.expiration-check-interval": "0 s"})
        stored = "org.apache.paimon.table.FileStoreTable"
        store = self._call(stored, "store", handle)
        kinds = ("java.lang.String", "org.apache.paimon.table.FileStoreTable")
        expiry = self._call(
            "org.apache.paimon.FileStore",
            "newPartitionExpire",
            store,
            *zip(kinds, ("headwater", handle), strict=True),
        )
        kind = "org.apache.paimon.operation.PartitionExpire"
        found = self._call(kind, "expire", expiry, ("long", 2**63 - 1)) or []
        return [{str(k): str(v) for k, v in spec.items()} for spec in found]

    def compact_manifests(self, table: str) -> None:
        handle = self._catalog.getTable(self._identifier(table))
        committer = self._call(TABLE, "newBatchWriteBuilder", handle).newCommit()
        committer.compactManifests()
        self._call("java.lang.AutoCloseable", "close", committer)

    def success_file(self, creation_time: int, modification_time: int) -> str:
        """The text of a file that says that a partition is complete."""
        file = self._jvm.org.apache.paimon.partition.file.SuccessFile
        return str(file(creation_time, modification_time).toJson())

    def _table_with(self, table: str, options: Mapping[str, str]) -> Any:
        handle = self._catalog.getTable(self._identifier(table))
        overlay = self._jvm.java.util.HashMap()
        overlay.putAll(dict(options))
        return self._call(TABLE, "copy", handle, ("java.util.Map", overlay))

    def mark_done(self, table: str, *specs: Mapping[str, str]) -> None:
        self._catalog.markDonePartitions(self._identifier(table), [dict(spec) for spec in specs])

    def create_tag(self, table: str, tag: str, snapshot_id: int) -> None:
        """On storage, as releases before 1.4 do."""
        handle = self._catalog.getTable(self._identifier(table))
        arguments = [("java.lang.String", tag), ("long", snapshot_id)]
        self._call(TABLE, "createTag", handle, *arguments)

    def create_branch(self, table: str, branch: str, tag: str | None = None) -> None:
        self._catalog.createBranch(self._identifier(table), branch, tag)

    def make_branch(self, table: str, branch: str) -> None:
        """On storage, where the catalog is nothing but files."""
        handle = self._catalog.getTable(self._identifier(table))
        self._call(TABLE, "createBranch", handle, ("java.lang.String", branch))

    def fast_forward(self, table: str, branch: str) -> None:
        self._catalog.fastForward(self._identifier(table), branch)

    def drop_branch(self, table: str, branch: str) -> None:
        self._catalog.dropBranch(self._identifier(table), branch)

    def branches(self, table: str) -> list[str]:
        return [str(name) for name in self._catalog.listBranches(self._identifier(table))]

    def consumers(self, table: str) -> dict[str, int]:
        """Next snapshots, by consumer id."""
        found = self._consumer_manager(table).consumers()
        return {str(consumer_id): int(number) for consumer_id, number in found.items()}

    def reset_consumer(self, table: str, consumer_id: str, next_snapshot: int) -> None:
        moved = self._jvm.org.apache.paimon.consumer.Consumer(next_snapshot)
        self._consumer_manager(table).resetConsumer(consumer_id, moved)

    def _consumer_manager(self, table: str) -> Any:
        handle = self._catalog.getTable(self._identifier(table))
        stored = "org.apache.paimon.table.FileStoreTable"
        file_io = self._call(stored, "fileIO", handle)
        location = self._call(stored, "location", handle)
        return self._jvm.org.apache.paimon.consumer.ConsumerManager(file_io, location)


def _integers(jvm: Any, values: Sequence[int]) -> Any:
    array = jvm.org.apache.paimon.utils.IntArrayList(len(values))
    for value in values:
        array.add(value)
    return array.toArray()


def _element(array: Any, at: int) -> object:
    """An element of an array of text or numbers, of which Java made an array of objects."""
    if array.isNullAt(at):
        return None
    element = array.toObjectArray()[at]
    return element if isinstance(element, int | float) else str(element.toString())


def _from_java(value: Any, root: str) -> object:
    if value is None:
        return None
    match root:
        case "CHAR" | "VARCHAR":
            return str(value.toString())
        case "DECIMAL":
            return Decimal(value.toString())
        case "TIMESTAMP_WITHOUT_TIME_ZONE":
            return _EPOCH + dt.timedelta(microseconds=value.toMicros())
        case "DATE":
            return _EPOCH.date() + dt.timedelta(days=value)
        case "BLOB":
            return bytes(value.toData())
        case "VECTOR":
            return [float(each) for each in value.toFloatArray()]
        case "ARRAY":
            return [_element(value, at) for at in range(value.size())]
    result: object = value
    return result
