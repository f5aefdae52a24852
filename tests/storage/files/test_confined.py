"""Files below one directory, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.storage.errors import Forbidden
from headwater.storage.files.confined import ConfinedFiles
from headwater.storage.files.local import LocalFileAccess


def test_only_what_lies_below_the_directory_is_read(tmp_path: Path) -> None:
    for folder in ("mine", "mine.too"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_bytes(b"rows")
    root = f"file://{tmp_path}/mine"
    files = ConfinedFiles(LocalFileAccess(None), root)
    assert files.read(f"{root}/file") == b"rows"
    assert [each.name for each in files.list(root)] == ["file"]
    for path in (
        f"file://{tmp_path}/mine.too/file",
        f"{root}/../mine.too/file",
        f"{root}/%2e%2e/mine.too/file",
        f"{root}/a/../../mine.too/file",
        f"{tmp_path}/mine.too/file",
        "s3://bucket/file",
    ):
        with pytest.raises(Forbidden, match="does not lie below"):
            files.read(path)
        with pytest.raises(Forbidden, match="does not lie below"):
            files.open_input(path)
    with pytest.raises(Forbidden, match="only read"):
        files.write(f"{root}/new", b"")
    assert not (tmp_path / "mine" / "new").exists()
