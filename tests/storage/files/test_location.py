"""One place for every name of a directory."""

from __future__ import annotations

import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place, parse_location

PARTS = st.lists(st.text("ab%2.é ", min_size=1, max_size=4).filter(lambda p: p.strip(".")))
SCHEMES = st.sampled_from(["s3", "s3a", "s3n", "S3", "S3A"])


@st.composite
def _spelled(draw: st.DrawFn, parts: list[str]) -> str:
    """A bucket's directory as somebody may write it."""
    bucket = draw(st.sampled_from(["lake", "Lake", "LAKE"]))
    slashes = st.sampled_from(["/", "//", "/./", "///"])
    text = f"{draw(SCHEMES)}://{bucket}"
    for part in parts:
        text += draw(slashes) + part
    return text + draw(st.sampled_from(["", "/", "//", "/."]))


@given(st.data(), PARTS)
def test_all_names_of_a_directory_lead_to_one_place(data: st.DataObject, parts: list[str]) -> None:
    one, other = (data.draw(_spelled(parts)) for _ in range(2))
    assert Place.of(one) == Place.of(other)
    # A place is a name of itself.
    assert Place.of(Place.of(one).uri) == Place.of(one)
    assert parse_location(parse_location(one)) == parse_location(one)


@given(st.data(), PARTS, PARTS)
def test_places_overlap_where_directories_do(
    data: st.DataObject, left: list[str], right: list[str]
) -> None:
    one, other = (Place.of(data.draw(_spelled(parts))) for parts in (left, right))
    holds = right[: len(left)] == left
    assert one.holds(other) == holds
    assert (one in other.enclosing) == holds
    assert one.overlaps(other) == other.overlaps(one) == (holds or left[: len(right)] == right)
    # What lies in a directory follows it directly, in the order of their keys.
    assert (one.key <= other.key < one.key[:-1] + "0") == holds


@given(PARTS)
def test_local_names_lead_to_one_place(parts: list[str]) -> None:
    path = posixpath.join("/no-such-folder", *parts)
    spellings = [path, f"file:{path}", f"file://{path}/", f"FILE:///{path}", path + "/x/.."]
    assert {Place.of(each).key for each in spellings} == {f"file://{path}/"}


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "deep").symlink_to(tmp_path / "link" / "inner")
    assert Place.of(str(tmp_path / "link" / "new")) == Place.of(str(tmp_path / "real" / "new"))
    assert Place.of(str(tmp_path / "real")).holds(Place.of(str(tmp_path / "deep")))
    # The name that was given is kept: clients know the folder by it.
    assert parse_location(str(tmp_path / "link")) == f"file://{tmp_path}/link"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hdfs://Node:8020/a", "hdfs://node/a/"),
        ("hdfs://node.:8020/a", "hdfs://node/a"),
        ("webhdfs://node:9870/a", "hdfs://node/a"),
        ("swebhdfs://node:9871/a", "webhdfs://node/a"),
        ("https://node:443/a", "http://node:80/a"),
        ("hdfs://[0:0:0:0:0:0:0:1]:8020/a", "hdfs://[::1]/a"),
        ("hdfs://[::FFFF:127.0.0.1]/a", "hdfs://127.0.0.1/a"),
        ("hdfs://127.1:9000/a", "hdfs://0x7f000001:9000/a"),
        ("gcs://b/a", "gs://b/a"),
        ("oss://lake.oss-cn-hangzhou.aliyuncs.com/a", "oss://Lake/a"),
        ("abfss://c@account/a", "abfs://c@Account/a"),
    ],
)
def test_aliases_and_default_ports(one: str, other: str) -> None:
    assert Place.of(one) == Place.of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/a%20b", "s3://b/a b"),  # percent signs are literal in file access
        ("s3://b/A", "s3://b/a"),
        ("s3://b/a", "s3://b/ab"),
        ("s3://b/a", "gs://b/a"),
        ("hdfs://node:9000/a", "hdfs://node/a"),
        ("/a%2Fb", "/a/b"),
    ],
)
def test_what_is_apart(one: str, other: str) -> None:
    assert not Place.of(one).overlaps(Place.of(other))


def test_the_directories_around() -> None:
    assert [place.uri for place in Place.of("s3a://b/x/y").enclosing] == [
        "s3://b/x/y",
        "s3://b/x",
        "s3://b",
    ]
    assert [place.uri for place in Place.of("/x").enclosing] == ["file:///x", "file:///"]
    assert Place.of("/").holds(Place.of("file:/x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://", "a bucket must stand in it"),
        ("s3://b/../c", "'..' must not"),
        ("s3:/b/c", "neither a URI nor a local path"),
        ("mailto:somebody", "neither a URI nor a local path"),
        ("file://host/x", "three slashes"),
        ("/a\nb", "control character"),
        ("s3://b/\x00", "control character"),
    ],
)
def test_what_is_no_location(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_location(text)


def test_credentials_are_not_repeated() -> None:
    with pytest.raises(Invalid, match="must not hold credentials") as refused:
        parse_location("s3://key:hunter2@bucket/x")
    assert "hunter2" not in refused.value.message
