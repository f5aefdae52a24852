"""The settings, and the sentences that refuse them."""

from __future__ import annotations

import json

import pytest

from headwater.server.settings import ServerSettings, is_loopback, load_settings
from headwater.storage.errors import Invalid


def test_the_defaults_serve_this_machine() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.tokens) == ("127.0.0.1", 8080, ())
    assert settings.warehouses == {"main": "./warehouse"}
    assert settings.database_url.get_secret_value() == "sqlite:///headwater.db"


def test_arguments_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_PORT", "9000")
    monkeypatch.setenv("HEADWATER_HOST", "0.0.0.0")
    monkeypatch.setenv("HEADWATER_TOKEN", "first, second")
    monkeypatch.setenv("HEADWATER_WAREHOUSES", "main=./a, other=s3://bucket/b=c")
    monkeypatch.setenv("HEADWATER_STORAGE_OPTIONS", '{"s3.secret-key": "hidden"}')
    settings = load_settings({"port": 9001})
    assert (settings.host, settings.port) == ("0.0.0.0", 9001)
    assert [token.get_secret_value() for token in settings.tokens] == ["first", "second"]
    assert settings.warehouses == {"main": "./a", "other": "s3://bucket/b=c"}
    assert settings.plain_storage_options() == {"s3.secret-key": "hidden"}
    assert "hidden" not in repr(settings)
    assert "first" not in repr(settings)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"host": "0.0.0.0"}, "without a token only this machine is served"),
        ({"host": "catalog.example", "tokens": []}, "listen on 127.0.0.1"),
        ({"tokens": [""]}, "a token is empty"),
        ({"tokens": ["  "]}, "a token is empty"),
        ({"tokens": ["tökén"]}, "must be ASCII"),
        ({"warehouses": {"a/b": "./x"}}, "'a/b' is not a warehouse name"),
        ({"warehouses": "main"}, "NAME=LOCATION"),
        ({"warehouses": "a=b,a=c"}, "named twice"),
        ({"port": 70000}, "setting 'port'"),
        ({"port": "many"}, "setting 'port'"),
        ({"colour": "red"}, "setting 'colour'"),
    ],
)
def test_a_contradiction_is_one_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(Invalid) as error:
        load_settings(values)
    assert sentence in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", ["allowed_locations", "external_locations"])
@pytest.mark.parametrize(
    "entry", ['["/a"]', '"/a"', "lakes", "./lakes", "~/lakes", "c:/lakes", ".."]
)
def test_a_list_of_locations_names_absolute_paths_and_uris_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, entry: str
) -> None:
    variable = f"HEADWATER_{name.upper()}"
    monkeypatch.setenv(variable, f"/a, s3://bucket/b,{entry}")
    with pytest.raises(Invalid) as error:
        load_settings()
    assert error.value.message == (
        f"setting '{name}': '{entry}' is neither a URI nor an absolute path; write locations with "
        "commas between them, as in /lakes,s3://bucket/lakes"
    )
    monkeypatch.setenv(variable, "/a, s3://bucket/b, file:///c")
    assert getattr(load_settings(), name) == ("/a", "s3://bucket/b", "file:///c")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("s3://user:hidden@bucket", "credentials"),
        ("s3:/bucket", "neither a URI"),
        ("s3://b/..", ".."),
    ],
)
def test_a_list_of_locations_names_no_malformed_uri(entry: str, words: str) -> None:
    with pytest.raises(Invalid) as error:
        load_settings({"allowed_locations": ["/a", entry]})
    assert words in error.value.message
    assert "hidden" not in error.value.message


@pytest.mark.parametrize(
    "entry",
    ['["https://minio:9000"]', "minio:9000", "https://user:hidden@minio:9000", "ftp://minio"],
)
def test_a_list_of_endpoints_names_nothing_else(
    monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.setenv("HEADWATER_ALLOWED_ENDPOINTS", f"https://minio:9000, {entry}")
    with pytest.raises(Invalid) as error:
        load_settings()
    assert error.value.message == (
        "setting 'allowed_endpoints': entry 2: an endpoint is a URL without credentials, such as "
        "https://minio:9000; write endpoints with commas between them"
    )


def test_a_refusal_quotes_no_secret() -> None:
    with pytest.raises(Invalid) as error:
        load_settings({"host": "0.0.0.0", "tokens": [], "database_url": "sqlite:///hidden.db"})
    assert "hidden" not in str(error.value)
    assert error.value.__cause__ is None


def test_an_environment_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_STORAGE_OPTIONS", "not json")
    with pytest.raises(Invalid, match="storage_options"):
        load_settings()


@pytest.mark.parametrize("name", ["s3.reigon", "s3.region ", " ", "", "s3.region\0", "fs.oss.x"])
def test_storage_options_that_nothing_reads_are_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HEADWATER_STORAGE_OPTIONS", json.dumps({name: "hidden"}))
    with pytest.raises(Invalid, match="the storage option") as rejected:
        load_settings()
    assert repr(name) in rejected.value.message
    assert "s3.endpoint" in rejected.value.message
    assert "hidden" not in rejected.value.message


def test_settings_are_frozen() -> None:
    settings = ServerSettings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "127.1.2.3", "::1", "[::1]"]
)
def test_loopback_hosts(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "notlocalhost", "127.0.0.1.a"])
def test_other_hosts(host: str) -> None:
    assert not is_loopback(host)
