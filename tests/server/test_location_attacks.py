"""Attacks by location: no caller has the server, or credentials that it gives out, reach elsewhere.

Each test names a pattern by which other catalogs were attacked, or could be, and shows it closed
with a running server. The published ones are those of Apache Polaris: CVE-2026-42809 (credentials
before the location is checked), -42810 (wildcards in names), -42811 (names that end a policy's
text), -42812 (an option that moves metadata, set alone) and -64640 (a registration that reads
first).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from moto.sts.models import sts_backends
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.sql import SqlCatalog
from headwater.storage.capabilities.checks import OPTIONS
from headwater.storage.files.location import Place
from headwater.storage.schema.path_options import PATH_OPTIONS

ROLE = "arn:aws:iam::123456789012:role/lake"
DATABASES = "/v1/main/databases"
TABLES = f"{DATABASES}/sales/tables"
VICTIM = "s3://lake/warehouse/sales.db/orders"


@pytest.fixture
def store(
    s3_endpoint: str, tmp_path: Path, new_sqlite: NewSqlite, serve: Serve
) -> Iterator[httpx.Client]:
    """A server whose warehouse is in an object store, and which gives out data tokens."""
    options = {
        "s3.endpoint": s3_endpoint,
        "s3.access-key": "AKIAOWN",
        "s3.secret-key": "own-secret",
        "s3.sts.role-arn": ROLE,
    }
    url = new_sqlite(tmp_path / "store.db")
    place = "s3://lake/warehouse"
    opened = SqlCatalog.open(
        url, warehouse="main", location=place, storage_options=options, external_locations=()
    )
    with closing(opened) as catalog:
        address = serve(catalog, tokens=["t"], data_token_seconds=7200)
        headers = {"authorization": "Bearer t"}
        with plain_http.Client(base_url=address, headers=headers, timeout=30) as http:
            http.post(DATABASES, json={"name": "sales"})
            yield http


@pytest.fixture
def folder(http: httpx.Client, catalog: SqlCatalog, sales: str, tmp_path: Path) -> httpx.Client:
    """A server whose warehouse is a folder; beside it is another, with a secret."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("hunter2")
    return http


def _create(
    http: httpx.Client,
    schema: Mapping[str, Any],
    name: str,
    options: Mapping[str, str] | None = None,
) -> httpx.Response:
    body = {
        "identifier": {"database": "sales", "object": name},
        "schema": {**schema, "options": {"bucket": "2", **(options or {})}},
    }
    return http.post(TABLES, json=body)


def _get(http: httpx.Client, name: str, what: str = "") -> httpx.Response:
    return http.get(f"{TABLES}/{quote(name, safe='')}{what}")


def _names(http: httpx.Client) -> list[str]:
    return list(http.get(TABLES).json()["tables"])


def _sessions() -> list[Any]:
    """The sessions that the store's service, which runs in this process, has given."""
    return list(sts_backends["123456789012"]["aws"].assumed_roles)


def _reaches(policy: str, key: str) -> bool:
    """True if a session may read an object, by the meaning that AWS gives to the pattern."""
    (allowed,) = [
        each["Resource"]
        for each in json.loads(policy)["Statement"]
        if "s3:GetObject" in each["Action"]
    ]
    (pattern,) = allowed
    parts = re.split(r"(\$\{[*?$]\}|[*?])", pattern)
    meaning = {"*": ".*", "?": ".", "${*}": r"\*", "${?}": r"\?", "${$}": r"\$"}
    expression = "".join(meaning.get(part) or re.escape(part) for part in parts)
    return re.fullmatch(expression, f"arn:aws:s3:::{key}") is not None


# Names of the place of the table ``orders``, of what is in it and of what is around it.
SPELLINGS = (
    VICTIM,
    "s3a://lake/warehouse/sales.db/orders",
    "s3n://lake/warehouse/sales.db/orders",
    "S3://Lake/warehouse/sales.db/orders/",
    "s3://LAKE//warehouse/./sales.db///orders",
    "s3://lake/warehouse/sales.db/x/../orders",
    "s3://lake/./warehouse/sales.db/orders/.",
    f"{VICTIM}/",
    f"{VICTIM}/snapshot",
    "s3://lake/warehouse/sales.db",
    "s3://lake/warehouse",
    "s3://lake/",
    "s3://lake",
    # Another client's reading of them is the victim's place.
    "s3://lake/warehouse/sales.db/%6frders",
    "s3://lake/warehouse/sales%2Edb/orders",
    "s3://lake/warehouse/sales.db%2Forders",
    "s3://lake/else/%2e%2e/warehouse/sales.db/orders",
    "s3://lake/else/.%2E/warehouse/sales.db/orders",
    "s3://lake/else/%252e%252e/warehouse/sales.db/orders",
    f"{VICTIM}?x",
    f"{VICTIM}#x",
    "s3://lake\\warehouse\\sales.db\\orders",
    "s3://anybody@lake/warehouse/sales.db/orders",
    "s3://lake:443/warehouse/sales.db/orders",
    "s3://la\u212ae/warehouse/sales.db/orders",  # KELVIN SIGN, whose lower case is a k
    "s3://\uff4c\uff41\uff4b\uff45/warehouse/sales.db/orders",  # wide letters
    "s3://%6cake/warehouse/sales.db/orders",
    "s3://lake\n/warehouse/sales.db/orders",
    "s3://lake%00/warehouse/sales.db/orders",
    "s3:/lake/warehouse/sales.db/orders",
    "s3:lake/warehouse/sales.db/orders",
)


@pytest.mark.modes
def test_no_spelling_of_a_place_makes_it_somebody_elses(
    store: httpx.Client, schema: dict[str, Any], subtests: pytest.Subtests
) -> None:
    """CVE-2026-42809: a location of the caller's choice, and credentials for it."""
    assert _create(store, schema, "orders").status_code == 200
    assert _get(store, "orders").json()["path"] == VICTIM
    before = len(_sessions())
    moves: Mapping[str, Callable[[str], httpx.Response]] = {
        "path": lambda place: _create(store, schema, "mine", {"path": place}),
        "register": lambda place: store.post(
            f"{DATABASES}/sales/register",
            json={"identifier": {"database": "sales", "object": "mine"}, "path": place},
        ),
        "data": lambda place: _create(
            store, schema, "mine", {"data-file.external-paths": f"s3://apart/x,{place}"}
        ),
        "index": lambda place: _create(
            store, schema, "mine", {"global-index.external-path": place}
        ),
    }
    for spelling in SPELLINGS:
        with subtests.test(spelling):
            for how, move in moves.items():
                answer = move(spelling)
                assert answer.status_code in (400, 403), (how, answer.text)
                assert _names(store) == ["orders"]
                assert _get(store, "mine", "/token").status_code == 404
            options = {"location": spelling}
            answer = store.post(DATABASES, json={"name": "mine", "options": options})
            assert answer.status_code == 400, answer.text
    assert store.get(DATABASES).json()["databases"] == ["sales"]
    assert len(_sessions()) == before


def test_a_table_elsewhere_gets_no_credentials(store: httpx.Client, schema: dict[str, Any]) -> None:
    """CVE-2026-42809: the warehouse's credentials are for what the catalog put there itself."""
    for number, place in enumerate(("s3://other/x", "s3://lake/beside", "gs://lake/warehouse/x")):
        name = f"outside{number}"
        assert _create(store, schema, name, {"path": place}).status_code == 200
        assert _get(store, name, "/token").status_code == 501
    assert not _sessions()


def test_a_name_is_no_pattern_and_ends_no_policy(
    store: httpx.Client, schema: dict[str, Any], subtests: pytest.Subtests
) -> None:
    """CVE-2026-42810 and -42811: names that mean more in a policy than themselves."""
    assert _create(store, schema, "orders").status_code == 200
    for name in (
        *("*", "o*", "o?ders", "[o]rders", "order{s,x}", "order", "orders.*", "o%72ders"),
        *('x","Resource":["*', "x'||true||'", '"]}]}', "x\\u002a", "${*}", "${aws:username}*"),
    ):
        with subtests.test(name):
            before = len(_sessions())
            made = _create(store, schema, name)
            if any(character in name for character in "$\\"):
                assert made.status_code == 400
                continue
            assert made.status_code == 200, made.text
            path = _get(store, name).json()["path"].removeprefix("s3://")
            assert _get(store, name, "/token").status_code == 200
            (session,) = _sessions()[before:]
            assert _reaches(session.policy, f"{path}/snapshot/snapshot-1")
            assert not _reaches(
                session.policy, "lake/warehouse/sales.db/orders/snapshot/snapshot-1"
            )
            assert not _reaches(session.policy, f"{path}x/snapshot/snapshot-1")
            document = json.loads(session.policy)
            actions = [each["Action"] for each in document["Statement"]]
            assert (len(actions), actions[1]) == (2, ["s3:ListBucket"])


# Values of options by which Paimon's writers would put files into another table.
WAYS_OUT = (
    "../orders/bucket-0/x",
    "..",
    "x/../../orders",
    "/x",
    "..%2Forders",
    "%2e%2e%2forders",
    "x\\..\\..\\orders",
    "%2e%2e",
)


@pytest.mark.parametrize(
    "ways", [WAYS_OUT[:3], pytest.param(WAYS_OUT[3:], marks=pytest.mark.modes)], ids=["few", "odd"]
)
def test_an_option_alone_moves_no_file(
    folder: httpx.Client,
    orders: str,
    schema: dict[str, Any],
    ways: Sequence[str],
    subtests: pytest.Subtests,
) -> None:
    """CVE-2026-42812: of all that a request may set, what names a file or folder is checked."""
    branch = f"{TABLES}/orders$branch_b"
    assert folder.post(f"{orders}/branches", json={"branch": "b"}).status_code == 200
    before = folder.get(orders).json()
    for option in sorted(PATH_OPTIONS):
        with subtests.test(option):
            for value in ways:
                set_it = {"changes": [{"action": "setOption", "key": option, "value": value}]}
                replaced = {**schema, "options": {"bucket": "2", option: value}}
                for answer in (
                    _create(folder, schema, "mine", {option: value}),
                    folder.post(orders, json=set_it),
                    folder.post(branch, json=set_it),
                    folder.post(f"{orders}/replace", json={"schema": replaced}),
                ):
                    assert answer.status_code == 400, (value, answer.text)
                    assert "hunter2" not in answer.text
    assert _names(folder) == ["orders"]
    assert folder.get(orders).json() == before


MOVES = ("path", "data-file.external-paths", "global-index.external-path")


@pytest.mark.parametrize("option", MOVES)
def test_a_place_is_checked_whichever_request_names_it(
    folder: httpx.Client, orders: str, schema: dict[str, Any], tmp_path: Path, option: str
) -> None:
    """CVE-2026-42812: creation, alteration, replacement and branches alike."""
    assert _create(folder, schema, "victim").status_code == 200
    victim = tmp_path / "lake" / "sales.db" / "victim"
    (tmp_path / "link").symlink_to(victim)
    assert folder.post(f"{orders}/branches", json={"branch": "b"}).status_code == 200
    for value in (
        *(str(victim), f"file:{victim}", f"FILE://{victim}/", f"{victim.parent}/./victim"),
        *(f"{victim}/../victim", f"{tmp_path}/link", f"{tmp_path}/link/bucket-0", "victim", ".."),
        *(f"file:{victim.parent}/%76ictim", f"{tmp_path}/x/%2e%2e/lake", f"file://host{victim}"),
    ):
        set_it = {"changes": [{"action": "setOption", "key": option, "value": value}]}
        options = {"bucket": "2", option: value}
        for answer in (
            _create(folder, schema, "mine", {option: value}),
            folder.post(orders, json=set_it),
            folder.post(f"{TABLES}/orders$branch_b", json=set_it),
            folder.post(f"{orders}/replace", json={"schema": {**schema, "options": options}}),
        ):
            assert answer.status_code in (400, 403), (value, answer.text)
    assert folder.get(orders).json()["schema"]["options"].get(option) is None


# Options whose names sound like a place's, and why they are none.
NAMES_NO_PLACE = {
    "index-file-in-data-file-dir": "true or false",
    "data-file.external-paths.specific-fs": "a scheme that chooses among the places",
    "data-file.external-paths.strategy": "a way to choose",
    "data-file.external-paths.weights": "numbers",
    "partition.legacy-name": "true or false",
    "file.suffix.include.compression": "true or false",
    "format-table.partition-path-only-value": "true or false",
    "format-table.commit-hive-sync-url": "a Hive metastore that Paimon's own writers call",
    "partition.mark-done-action.http.url": "called by Paimon's own writers",
    "scan.fallback-branch.read-fail-fast": "true or false",
    "commit.user-prefix": "a part of the name of a commit's user, which is in no path",
    "partition.timestamp-format.strict": "true or false",
    "format-table.implementation": "paimon or engine",
    "sink.operator-uid.suffix": "of Flink",
    "source.operator-uid.suffix": "of Flink",
}
SOUNDS_LIKE_A_PLACE = re.compile(
    r"path|location|prefix|suffix|branch$|branch\.|directory|dir$|name$|uri$|url$|endpoint|folder"
    r"|format$|external|warehouse|host$"
)


def test_every_option_that_sounds_like_a_place_is_accounted_for() -> None:
    known = {option.key for option in OPTIONS}
    sounding = {key for key in known if SOUNDS_LIKE_A_PLACE.search(key)}
    assert sounding - PATH_OPTIONS - set(MOVES) - NAMES_NO_PLACE.keys() == set()
    assert not NAMES_NO_PLACE.keys() & PATH_OPTIONS


def test_a_registration_reads_nothing_of_somebody_elses(
    folder: httpx.Client, orders: str, tmp_path: Path
) -> None:
    """CVE-2026-64640: the answer is the same whatever is there."""
    inside = tmp_path / "lake" / "sales.db" / "orders"
    outside = tmp_path / "elsewhere"

    def answers() -> list[tuple[int, str]]:
        found = [
            folder.post(
                f"{DATABASES}/sales/register",
                json={"identifier": {"database": "sales", "object": "mine"}, "path": str(place)},
            )
            for place in (inside, inside / "branch" / "branch-b", outside, outside / "secret")
        ]
        return [(each.status_code, each.json()["message"]) for each in found]

    # The catalog of this server may work anywhere, so that no table is there is told of outside.
    first = answers()
    (inside / "schema" / "schema-0").write_text("hunter2")
    (inside / "schema" / "schema-1").write_text("hunter2")
    assert answers()[:2] == first[:2]
    assert [status for status, _ in first] == [400] * 4
    assert not any("hunter2" in message for _, message in first)


def test_a_place_that_the_operator_did_not_name_is_neither_read_nor_written(
    store: httpx.Client, schema: dict[str, Any], tmp_path: Path
) -> None:
    """CVE-2026-64640 and SSRF: another scheme reaches the server's own disk, or its own account."""
    table = tmp_path / "table" / "schema"
    table.mkdir(parents=True)
    (table / "schema-0").write_text("hunter2")
    for place in (f"file://{table.parent}", str(table.parent), "s3://private/table"):
        name = {"database": "sales", "object": "mine"}
        register = store.post(
            f"{DATABASES}/sales/register", json={"identifier": name, "path": place}
        )
        without = _create(store, {**schema, "fields": []}, "mine", {"path": place})
        for answer in (register, without):
            assert answer.status_code in (400, 403), answer.text
            assert "hunter2" not in answer.text
        # It may be named, and nothing comes of it.
        assert _create(store, schema, "mine", {"path": place}).status_code == 200
        assert _get(store, "mine").json()["schema"]["fields"][0]["name"] == "order_id"
        assert store.delete(f"{TABLES}/mine").status_code == 200
    assert [path.name for path in tmp_path.joinpath("table").rglob("*") if path.is_file()] == [
        "schema-0"
    ]


NAMES = ("../x", "x/../../y", "/x", "x\\..\\y", "x\0y", "x\ny", "..", ".", "$x", "")
# What some clients decode is no name of a file either, as it stands in the name.
DECODED = ("%2e%2e%2fx", "..%2Fx", "x%5cy", "x%00y")


def test_no_name_leads_out_of_its_folder(
    folder: httpx.Client,
    orders: str,
    schema: dict[str, Any],
    commit: Callable[..., httpx.Response],
    tmp_path: Path,
) -> None:
    def tree() -> set[str]:
        return {str(path) for path in tmp_path.rglob("*") if ".db-" not in path.name}

    assert commit(orders, 1).json() == {"success": True}
    for made in ({"branch": "b"}, {"branch": "c", "fromTag": None}):
        assert folder.post(f"{orders}/branches", json=made).status_code == 200
    assert folder.post(f"{orders}/tags", json={"tagName": "t"}).status_code == 200
    before = tree()
    for name in NAMES:
        identifier = {"database": "sales", "object": name}
        body = {"source": {"database": "sales", "object": "orders"}, "destination": identifier}
        for what, answer in (
            ("database", folder.post(DATABASES, json={"name": name})),
            ("table", _create(folder, schema, name)),
            ("rename", folder.post("/v1/main/tables/rename", json=body)),
        ):
            assert answer.status_code == 400, (what, name, answer.text)
    for name in (*NAMES[:6], *DECODED):
        for what, answer in (
            ("branch", folder.post(f"{orders}/branches", json={"branch": name})),
            ("tag", folder.post(f"{orders}/tags", json={"tagName": name})),
            ("consumer", folder.post(f"{orders}/consumers/reset", json=_reset(name))),
        ):
            assert answer.status_code == 400, (what, name, answer.text)
    assert tree() == before


def _reset(consumer: str) -> dict[str, object]:
    return {"consumerId": consumer, "nextSnapshotId": 1}


def test_a_snapshot_names_no_file_of_another_table(
    folder: httpx.Client, orders: str, commit: Callable[..., httpx.Response]
) -> None:
    """Whoever expires snapshots or removes orphans deletes what they name."""
    for key in (
        *("baseManifestList", "deltaManifestList", "changelogManifestList"),
        *("indexManifest", "statistics"),
    ):
        for value in ("../../victim/manifest/manifest-list-1", "..%2Fx", "/etc/passwd"):
            answer = commit(orders, 1, **{key: value})
            assert answer.status_code == 400, answer.text
    assert commit(orders, 1).json() == {"success": True}


def test_a_name_that_clients_read_differently_is_in_no_path(
    folder: httpx.Client, schema: dict[str, Any]
) -> None:
    """Some clients decode percent signs, or take a hash for the end of a path."""
    assert _create(folder, schema, "a_b").status_code == 200
    names = ("a%b", "a?b", "a#b", "%2e%2e", "%2e%2e%2forders", "a%2Fb")
    places = {Place.of(_get(folder, "a_b").json()["path"])}
    for name in names:
        assert _create(folder, schema, name).status_code == 200
        path = _get(folder, name).json()["path"]
        assert not set("%?#") & set(path)
        assert not any(Place.of(path).overlaps(other) for other in places)
        places.add(Place.of(path))
        answer = folder.post(DATABASES, json={"name": name})
        location = folder.get(f"{DATABASES}/{quote(name, safe='')}").json()["location"]
        assert (answer.status_code, set("%?#") & set(location)) == (200, set())
