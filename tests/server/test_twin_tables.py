"""Two tables that differ in what a reader is not shown alone are answered byte for byte alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import httpx
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import plain_http
from tests.examples import examples
from tests.modes import essential
from tests.server.restricted import SCHEMA, concat, filter_policy, leaf, mask_policy

from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.storage.runtime import SYSTEM_RUNTIME

Ask: TypeAlias = Callable[[str, object], httpx.Response]
Row: TypeAlias = tuple[int, str, str, int]

COMMITS, ROWS, BATCH = 4, 12, 5
TWINS = ("one", "other")


def _rows(commit: int, seed: int) -> Sequence[Row]:
    """The rows of a commit: those of EMEA are the same for all seeds, but for salaries."""
    shown = random.Random(commit)  # not for secrets
    hidden = random.Random(f"{commit} {seed}")  # not for secrets
    rows: list[Row] = []
    for at in range(commit * ROWS, (commit + 1) * ROWS):
        if shown.random() < 0.5:
            rows.append((at * 10, "EMEA", str(hidden.random()), hidden.randrange(10**6)))
        else:
            # Between the others, or, in one table, far from them: what statistics tell of.
            is_far = seed == 0 and hidden.random() < 0.4
            id_ = hidden.randrange(10**6, 10**9) if is_far else at * 10 + hidden.randrange(1, 9)
            rows.append((id_, hidden.choice(["APAC", "ZZZ"]), "x" * hidden.randrange(9), 7))
    return rows


@pytest.fixture(params=essential([False, True], {False}), ids=["append", "keyed"])
def is_keyed(request: pytest.FixtureRequest) -> bool:
    """True for tables with a primary key and a changelog."""
    return bool(request.param)


@pytest.fixture
def ask(catalog: SqlCatalog, serve: Callable[..., str], is_keyed: bool) -> Iterator[Ask]:
    """Reads a table as ada, who is shown EMEA, stars for phones and no salaries."""
    lake = Lake(catalog)
    lake.create_database("sales")
    options = {"query-auth.enabled": "true"}
    if is_keyed:
        options |= {"bucket": "1", "changelog-producer": "lookup"}
    else:
        # Each file is a split of its own.
        options |= {"write-only": "true", "source.split.target-size": "1 b"}
    for seed, name in enumerate(TWINS):
        keys = ["id"] if is_keyed else []
        table = lake.create_table(f"sales.{name}", SCHEMA, primary_keys=keys, options=options)
        for commit in range(COMMITS):
            columns = [list(column) for column in zip(*_rows(commit, seed), strict=True)]
            table.write(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA))
        for policy in (
            filter_policy("ada", leaf("EQUAL", "region", "EMEA")),
            mask_policy("ada", "phone", concat("***")),
            mask_policy("ada", "salary", {"name": "NULL"}),
        ):
            catalog.policies.create(table.identifier, policy)
    tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
    parts = {"find_token": tokens.find}
    address = serve(catalog, parts=parts, require_token=True, read_batch_rows=BATCH)
    secret = tokens.create("ada", scopes=[Scope.ADMINISTER]).secret
    headers = {"authorization": f"Bearer {secret}"}
    with plain_http.Client(base_url=address, headers=headers) as http:
        yield lambda name, body: http.post(
            f"/v1/main/databases/sales/tables/{name}/read", json=body
        )


_NUMBERS = st.one_of(
    st.integers(0, COMMITS * ROWS * 10), st.integers(10**6, 10**9), st.sampled_from([-1, 2**62])
)
_CONDITIONS = st.one_of(
    st.builds("id {} {}".format, st.sampled_from(["=", "<", ">=", "<>"]), _NUMBERS),
    st.builds("id >= {0} OR id = {1}".format, _NUMBERS, _NUMBERS),
    st.builds("id IN ({}, {})".format, _NUMBERS, _NUMBERS),
    st.builds("salary > {}".format, _NUMBERS),
    st.sampled_from(
        ["region = 'APAC'", "region >= 'F'", "phone = 'x'", "phone LIKE '***%'", "region IS NULL"]
    ),
)
_KINDS: tuple[dict[str, object], ...] = (
    {},
    {"kind": "audit-log"},
    {"kind": "read-optimized"},
    {"snapshotId": 2},
    {"kind": "changes", "changes": {"since": 1}},
    {"kind": "changes", "changes": {"since": 0, "until": 3}},
)


@st.composite
def _bodies(draw: st.DrawFn, *, in_parts: bool) -> dict[str, object]:
    body = dict(draw(st.sampled_from(_KINDS)))
    if draw(st.booleans()):
        columns = st.lists(st.sampled_from(SCHEMA.names), unique=True)
        body |= {"select": draw(columns), "filterColumns": SCHEMA.names}
    if draw(st.booleans()):
        body["where"] = draw(_CONDITIONS)
    if draw(st.booleans()):
        body["limit"] = draw(st.integers(0, 2 * BATCH))
    if in_parts and body.get("kind") != "changes":
        parts = draw(st.integers(1, COMMITS + 1))
        body |= {"snapshotId": 4, "parts": parts, "part": draw(st.integers(0, parts - 1))}
    return body


def _told(answer: httpx.Response, name: str) -> object:
    """All that an answer tells but the table's name, its times and its ids."""
    if answer.status_code != 200:
        return answer.status_code, answer.json()["message"].replace(name, "it")
    with pa.ipc.open_stream(answer.content) as stream:
        metadata = {
            key: value for key, value in stream.schema.metadata.items() if b"schema" not in key
        }
        return metadata, [(each.num_rows, each.serialize().to_pybytes()) for each in stream]


def test_what_is_not_shown_changes_no_answer(ask: Ask, is_keyed: bool) -> None:
    one, other = TWINS
    shown = 0

    # Which rows of a primary-key table are merged together depends on all of its keys.
    @settings(max_examples=examples(80), deadline=None)
    @given(body=_bodies(in_parts=not is_keyed))
    @example(body={"where": "id >= 0"})
    @example(body={"select": ["id"], "where": "salary > 1", "filterColumns": ["salary"]})
    @example(
        body={"where": "id >= 1000000 OR id >= 360", "snapshotId": 4, "parts": 4, "part": 0}
        if not is_keyed
        else {}
    )
    def answers_are_alike(body: dict[str, object]) -> None:
        nonlocal shown
        first, second = ask(one, body), ask(other, body)
        assert _told(first, one) == _told(second, other), body
        shown += first.status_code == 200 and b"EMEA" in first.content

    answers_are_alike()
    assert shown
