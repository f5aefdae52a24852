"""Row filters and column masks, enforced: what a restricted principal is shown, and what not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from tests import plain_http
from tests.server.restricted import (
    PEOPLE,
    SCHEMA,
    concat,
    filter_policy,
    leaf,
    mask_policy,
    people,
    reference,
)

from headwater.catalog.model.access import ReadRequest
from headwater.catalog.model.principal import Scope
from headwater.catalog.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.policies import PolicyType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.table.served_rows import ServedScan
from headwater.client import Lake, connect
from headwater.client.requests import Requests
from headwater.client.rest import RestCatalog
from headwater.client.row_reader import RestRowReader
from headwater.storage.errors import Conflict, Forbidden, HeadwaterError, NotFound
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
)
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import Json

As = Callable[[str], Lake]
STRING = AtomicType(Root.VARCHAR, length=2**31 - 1)


@pytest.fixture
def lake_as(catalog: SqlCatalog, serve: Callable[..., str]) -> Iterator[As]:
    """Connects to the server with a token of a principal."""
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    opened: dict[str, Lake] = {}
    with ExitStack() as lakes:

        def open_as(principal: str) -> Lake:
            if principal not in opened:
                secret = tokens.create(principal, scopes=[Scope.ADMINISTER]).secret
                opened[principal] = lakes.enter_context(connect(address, token=secret))
            return opened[principal]

        yield open_as


@pytest.fixture
def owner(lake_as: As) -> Lake:
    """Whoever no policy names; the table of people is there."""
    lake = lake_as("owner")
    lake.create_database("sales")
    made = lake.create_table("sales.people", SCHEMA, options={"query-auth.enabled": "true"})
    made.write(people())
    return lake


@pytest.fixture
def ada(owner: Lake, lake_as: As) -> Lake:
    """Sees EMEA alone, phones as stars and no salaries."""
    policies = owner.catalog.policies
    policies.create(PEOPLE, filter_policy("ada", leaf("EQUAL", "region", "EMEA")))
    policies.create(PEOPLE, mask_policy("ada", "phone", concat("***", reference("region"))))
    policies.create(PEOPLE, mask_policy("ada", "salary", {"name": "NULL"}))
    return lake_as("ada")


SHOWN = {
    "id": [1, 3],
    "region": ["EMEA", "EMEA"],
    "phone": ["***EMEA", "***EMEA"],
    "salary": [None, None],
}


def test_rows_are_filtered_and_columns_masked(ada: Lake, owner: Lake) -> None:
    table = ada.table("sales.people")
    assert table.scan().to_arrow() == pa.table(SHOWN, schema=SCHEMA)
    assert table.scan().to_polars().to_dict(as_series=False) == SHOWN
    assert table.scan().to_pandas().to_dict("list")["phone"] == SHOWN["phone"]
    assert pa.table(table.scan()).to_pydict() == SHOWN
    assert [batch.num_rows for batch in table.scan().to_batches() if batch.num_rows] == [2]
    assert table.scan(["phone"]).to_arrow().to_pydict() == {"phone": SHOWN["phone"]}
    assert table.scan(["salary", "id"]).to_arrow().column_names == ["salary", "id"]
    lazy = table.scan().lazy()
    assert lazy.select("phone", "id").collect().to_dict(as_series=False) == {
        "phone": SHOWN["phone"],
        "id": SHOWN["id"],
    }
    assert owner.table("sales.people").scan().to_arrow() == people()


def test_counts_and_conditions_see_what_is_shown(ada: Lake) -> None:
    table = ada.table("sales.people")
    assert table.scan().count() == 2
    assert table.scan(where="salary > 5").count() == 0
    assert table.scan(where="salary IS NULL").count() == 2
    assert table.scan(where="phone = '5550101'").count() == 0
    assert table.scan(["id"], where="phone = '***EMEA'").to_arrow().to_pydict() == {"id": [1, 3]}
    assert table.scan(where="region = 'APAC-SECRET'").count() == 0
    assert table.scan(where="id = 2").count() == 0
    assert table.scan(["id"], where="id = 3 AND phone LIKE '***%'").count() == 1
    with pytest.raises(NotFound, match="nowhere"):
        table.scan(["nowhere"])


def test_changes_and_the_audit_log_are_filtered(ada: Lake, owner: Lake) -> None:
    made = owner.table("sales.people")
    made.write(people().slice(1, 2))
    table = ada.table("sales.people")
    changes = table.changes(since=1)
    assert changes.to_arrow().to_pydict() == {
        "id": [3],
        "region": ["EMEA"],
        "phone": ["***EMEA"],
        "salary": [None],
        "_ROW_KIND": ["+I"],
    }
    assert table.changes(since=0, columns=["id"], row_kinds=False).to_arrow().to_pydict() == {
        "id": [1, 3, 3]
    }
    assert changes.count() == 1
    log = table.inspect.audit_log(["id", "phone"])
    assert log.to_arrow().sort_by("id").to_pydict() == {
        "rowkind": ["+I"] * 3,
        "id": [1, 3, 3],
        "phone": ["***EMEA"] * 3,
    }
    assert table.inspect.audit_log(["id"], since=1).to_arrow()["id"].to_pylist() == [3]
    assert sorted(table.inspect.ro(["id"]).to_arrow()["id"].to_pylist()) == [1, 3, 3]
    with pytest.raises(Forbidden, match="binlog"):
        table.inspect.binlog()


def test_merged_rows_are_filtered_as_merging_left_them(owner: Lake, lake_as: As) -> None:
    options = {"query-auth.enabled": "true", "bucket": "1"}
    made = owner.create_table("sales.keyed", SCHEMA, primary_keys=["id"], options=options)
    made.write(people())
    moved = people().slice(0, 1).set_column(1, "region", pa.array(["APAC-SECRET"]))
    made.write(moved)
    owner.catalog.policies.create(
        made.identifier, filter_policy("bob", leaf("EQUAL", "region", "EMEA"))
    )
    seen = lake_as("bob").table("sales.keyed")
    assert seen.scan(["id"]).to_arrow().to_pydict() == {"id": [3]}
    # The row of then was shown then.
    assert seen.scan(["id"], snapshot_id=1).to_arrow().to_pydict() == {"id": [1, 3]}


def test_rows_of_the_past_and_of_branches_are_filtered(ada: Lake, owner: Lake) -> None:
    made = owner.table("sales.people")
    made.create_tag("first")
    made.create_branch("trial", tag="first")
    made.write(people())
    table = ada.table("sales.people")
    assert table.scan(tag="first").count() == 2
    assert table.scan(snapshot_id=1).count() == 2
    assert table.scan(version="first").count() == 2
    assert table.with_options({"scan.snapshot-id": "1"}).scan().count() == 2
    assert table.scan().count() == 4
    assert table.branch("trial").scan().to_arrow().to_pydict() == SHOWN
    # A scan keeps to its snapshot.
    before = table.scan()
    made.write(people())
    assert before.count() == 4


def test_nothing_else_of_the_table_is_shown(ada: Lake) -> None:
    table = ada.table("sales.people")
    looks: tuple[Callable[[], object], ...] = (
        table.files,
        table.partitions,
        table.inspect.files,
        table.inspect.file_key_ranges,
        table.inspect.buckets,
        table.inspect.partitions,
        table.inspect.manifests,
        table.inspect.statistics,
        table.inspect.table_indexes,
        table.compact,
        table.analyze,
        table.truncate,
        table.expire_snapshots,
        table.remove_orphan_files,
    )
    for look in looks:
        with pytest.raises(Forbidden, match="policies restrict"):
            look()
    changes: tuple[Callable[[], object], ...] = (
        lambda: table.write(people()),
        lambda: table.delete("id = 1"),
        lambda: table.update({"phone": "x"}, where="id = 2"),
        lambda: table.merge(people(), on=["id"]),
        lambda: table.overwrite(people()),
    )
    for change in changes:
        with pytest.raises(Forbidden, match="policies restrict"):
            change()
    with pytest.raises(Forbidden, match="policies restrict"):
        ada.system_table("sales.people$files").to_arrow()
    # Not even by saying that nobody need be asked.
    with pytest.raises(Forbidden, match="policies restrict"):
        table.with_options({"query-auth.enabled": "false"}).files()


def test_ids_and_versions_of_rows_are_not_shown(owner: Lake, lake_as: As) -> None:
    options = {"query-auth.enabled": "true", "row-tracking.enabled": "true"}
    for name, more in (("tracked", {}), ("evolving", {"data-evolution.enabled": "true"})):
        made = owner.create_table(f"sales.{name}", SCHEMA, options={**options, **more})
        made.write(people())
        owner.catalog.policies.create(
            made.identifier, filter_policy("bob", leaf("EQUAL", "region", "EMEA"))
        )
    bob = lake_as("bob")
    for name in ("tracked", "evolving"):
        table = bob.table(f"sales.{name}")
        assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [1, 3]
        looks: tuple[Callable[[], object], ...] = (
            lambda table=table: table.scan(["_ROW_ID"]).to_arrow(),  # type: ignore[misc]
            lambda table=table: table.scan(["_SEQUENCE_NUMBER"]).to_arrow(),  # type: ignore[misc]
            lambda table=table: table.scan(["id"], where="_ROW_ID > 1").to_arrow(),  # type: ignore[misc]
            lambda table=table: table.inspect.row_tracking().to_arrow(),  # type: ignore[misc]
        )
        for look in looks:
            with pytest.raises(Forbidden, match="count rows that you are not shown"):
                look()


def test_a_restricted_principal_neither_sees_nor_changes_policies(ada: Lake, owner: Lake) -> None:
    policies = ada.catalog.policies
    with pytest.raises(Forbidden, match="policies restrict"):
        policies.drop(PEOPLE, PolicyType.ROW_FILTER, "ada")
    with pytest.raises(Forbidden, match="policies restrict"):
        policies.create(PEOPLE, filter_policy("eve", leaf("IS_NULL", "region")))
    with pytest.raises(Forbidden, match="policies restrict"):
        policies.list(PEOPLE)
    assert len(policies.list(PEOPLE, principal="ada").items) == 3
    for change in (RemoveOption("query-auth.enabled"), DropColumn(("phone",))):
        with pytest.raises(HeadwaterError):
            ada.alter_table("sales.people", change)
    owner.catalog.policies.drop(PEOPLE, PolicyType.ROW_FILTER, "ada")
    assert ada.table("sales.people").scan().count() == 4


def test_policies_follow_a_renamed_table(ada: Lake, owner: Lake) -> None:
    owner.rename_table("sales.people", "sales.persons")
    assert ada.table("sales.persons").scan().to_arrow().to_pydict() == SHOWN


def test_a_column_that_was_another_one_then_is_not_shown(owner: Lake, lake_as: As) -> None:
    owner.alter_table("sales.people", RenameColumn(("phone",), "mobile"))
    owner.alter_table("sales.people", AddColumn(("phone",), STRING))
    made = owner.table("sales.people")
    made.write(pa.table({"id": [5], "mobile": ["5550199"]}))
    owner.catalog.policies.create(PEOPLE, mask_policy("ada", "mobile", concat("***")))
    table = lake_as("ada").table("sales.people")
    assert set(table.scan(["mobile"]).to_arrow()["mobile"].to_pylist()) == {"***"}
    # Then the same column had another name, under which no policy masks it.
    with pytest.raises(Forbidden, match="column 'mobile'"):
        table.scan(snapshot_id=1)
    owner.table("sales.people").create_branch("old")
    branch = owner.table("sales.people").branch("old")
    branch.alter(RenameColumn(("mobile",), "cell"))
    with pytest.raises(Forbidden, match="column 'mobile'"):
        table.branch("old").scan()


def test_several_filters_hold_together_and_masks_that_differ_show_nothing(
    catalog: SqlCatalog, owner: Lake, lake_as: As
) -> None:
    Groups(catalog.operation.database).add("analysts", "ada")
    policies = owner.catalog.policies
    policies.create(PEOPLE, filter_policy("ada", leaf("IN", "region", "EMEA", "APAC-SECRET")))
    table = lake_as("ada").table("sales.people")
    assert table.scan(["id"]).to_arrow().to_pydict() == {"id": [1, 2, 3]}
    policies.create(PEOPLE, filter_policy("group:analysts", leaf("GREATER_THAN", "id", 1)))
    policies.create(PEOPLE, mask_policy("ada", "region", concat("x")))
    # The filter sees what the mask hides.
    table.refresh()
    assert table.scan(["id", "region"]).to_arrow().to_pydict() == {
        "id": [2, 3],
        "region": ["x", "x"],
    }
    policies.create(PEOPLE, mask_policy("group:analysts", "region", concat("y")))
    assert table.refresh().scan(["region"]).to_arrow().to_pydict() == {"region": [None, None]}
    policies.create(PEOPLE, filter_policy("group:others", leaf("IS_NULL", "id")))
    assert table.refresh().scan().count() == 2


def test_masks_that_differ_of_a_column_that_cannot_be_null_refuse_the_table(
    catalog: SqlCatalog, owner: Lake, lake_as: As
) -> None:
    Groups(catalog.operation.database).add("analysts", "ada")
    schema = pa.schema([pa.field("code", pa.string(), nullable=False)])
    made = owner.create_table("sales.codes", schema, options={"query-auth.enabled": "true"})
    made.write({"code": ["APAC-SECRET"]})
    for principal, shown in (("ada", "x"), ("group:analysts", "y")):
        mask = mask_policy(principal, "code", concat(shown))
        owner.catalog.policies.create(made.identifier, mask)
    with pytest.raises(Forbidden, match="several masks of column 'code'"):
        lake_as("ada").table("sales.codes").scan().to_arrow()
    assert lake_as("bob").table("sales.codes").scan().count() == 1


def test_a_mask_that_fails_on_a_row_shows_nothing_of_it(owner: Lake, lake_as: As) -> None:
    cast: dict[str, Json] = {"name": "CAST", "fieldRef": reference("phone"), "type": "INT"}
    owner.table("sales.people").write(
        pa.table({"id": [9], "region": ["EMEA"], "phone": ["no-number-777"]})
    )
    owner.catalog.policies.create(PEOPLE, mask_policy("ada", "salary", cast))
    table = lake_as("ada").table("sales.people")
    with pytest.raises(HeadwaterError) as caught:
        table.scan(["salary"]).to_arrow()
    assert "777" not in str(caught.value)


def test_policies_that_change_between_parts_are_noticed(ada: Lake, owner: Lake) -> None:
    scan = ada.table("sales.people").scan()
    owner.catalog.policies.drop(PEOPLE, PolicyType.COLUMN_MASKING, "ada", "salary")
    with pytest.raises(Conflict, match="policies of table"):
        scan.to_arrow()


def test_parts_are_the_whole_and_none_twice(owner: Lake, lake_as: As) -> None:
    options = {"query-auth.enabled": "true", "bucket": "4"}
    made = owner.create_table("sales.keyed", SCHEMA, primary_keys=["id"], options=options)
    many = pa.table({"id": range(100), "region": ["EMEA", "APAC-SECRET"] * 50})
    made.write(many)
    owner.catalog.policies.create(
        made.identifier, filter_policy("ada", leaf("EQUAL", "region", "EMEA"))
    )
    whole = lake_as("ada").table("sales.keyed").scan(["id"])
    assert isinstance(whole, ServedScan)
    scan = whole.divided(3)
    parts = [
        [row for batch in scan.read_split(split) for row in batch["id"].to_pylist()]
        for split in scan.splits
    ]
    assert sorted(row for part in parts for row in part) == list(range(0, 100, 2))
    assert sum(1 for part in parts if part) > 1


def test_who_may_select_some_columns_reads_these(
    catalog: SqlCatalog, owner: Lake, serve: Callable[..., str]
) -> None:
    column = PermissionTarget(TargetType.COLUMN, "sales", "people")
    some = ColumnSet(("id", "region"))
    owner.catalog.permissions.grant(Grant(column, Access.SELECT, "bob", columns=some))
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    address = serve(catalog, parts={"find_token": tokens.find}, require_token=True)
    with connect(address, token=tokens.create("bob").secret) as lake:
        table = lake.table("sales.people")
        assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [1, 2, 3, 4]
        assert table.scan(["id"], where="region = 'EMEA'").count() == 2
        for columns, where in (
            (None, None),
            (["phone"], None),
            (["id"], "phone = '5550101'"),
        ):
            with pytest.raises(Forbidden):
                table.scan(columns, where).to_arrow()
        with pytest.raises(Forbidden, match="policies restrict"):
            table.files()


def test_an_embedded_catalog_is_its_owners(ada: Lake, tmp_path: Path, catalog: SqlCatalog) -> None:
    assert ada.table("sales.people").scan().count() == 2
    table = Lake(catalog).table("sales.people")
    assert table.scan().to_arrow() == people()
    table.write(people())


def test_reads_leave_room_for_other_requests_and_wait_for_their_turn(
    catalog: SqlCatalog, serve: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(catalog)
    lake.create_database("sales")
    made = lake.create_table("sales.many", pa.schema([("text", pa.string())]))
    # More than the buffers between two processes hold: a reader that pauses stops the server's.
    made.write(pa.table({"text": ["x" * 1000] * 30_000}))
    address = serve(catalog, read_concurrency=1, read_wait="100 ms", read_batch_rows=100)
    path = f"{address}/v1/main/databases/sales/tables/many/read"
    with plain_http.Client() as http:
        with http.stream("POST", path, json={}) as paused:
            assert paused.status_code == 200
            assert http.get(f"{address}/healthz").status_code == 200
            refused = http.post(path, json={"limit": 1})
            assert refused.status_code == 503
            assert "HEADWATER_READ_CONCURRENCY" in refused.json()["message"]
            assert refused.headers["retry-after"]
        # The client has left, and its turn ends.
        answers = (http.post(path, json={"limit": 1}) for _ in range(100))
        answer = next(each for each in answers if each.status_code == 200)
        assert pa.ipc.open_stream(answer.content).read_all().num_rows == 1
    assert not [record for record in caplog.records if record.exc_info]


def test_a_stream_that_breaks_off_is_no_whole(
    owner: Lake, catalog: SqlCatalog, serve: Callable[..., str]
) -> None:
    options = {"query-auth.enabled": "true", "bucket": "2", "bucket-key": "id"}
    made = owner.create_table("sales.broken", SCHEMA, options=options)
    made.write(people())
    first, *_ = sorted(Lake(catalog).table("sales.broken").files(), key=lambda file: file.bucket)
    reader = RestRowReader(_requests(owner), made.identifier)
    whole = [row for batch in reader.read(ReadRequest()).batches for row in batch["id"].to_pylist()]
    assert sorted(whole) == [1, 2, 3, 4]
    (Path(made.info.path.removeprefix("file://")) / f"bucket-{first.bucket}" / first.name).unlink()
    with pytest.raises(HeadwaterError):
        list(reader.read(ReadRequest()).batches)


def test_files_outside_of_a_table_are_not_read_for_others(
    owner: Lake, lake_as: As, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    options = {
        "query-auth.enabled": "true",
        "data-file.external-paths": f"file://{elsewhere}",
        "data-file.external-paths.strategy": "round-robin",
    }
    made = owner.create_table("sales.spread", SCHEMA, options=options)
    made.write(people())
    assert made.scan().count() == 4
    owner.catalog.policies.create(made.identifier, filter_policy("ada", leaf("IS_NOT_NULL", "id")))
    with pytest.raises(HeadwaterError, match="cannot be read"):
        lake_as("ada").table("sales.spread").scan().to_arrow()
    with pytest.raises(Forbidden, match="does not lie below its directory"):
        list(RestRowReader(_requests(owner), made.identifier).read(ReadRequest()).batches)


def _requests(lake: Lake) -> Requests:
    client = lake.catalog
    assert isinstance(client, RestCatalog)
    return client.policies._requests
