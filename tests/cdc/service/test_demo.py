"""`headwater cdc demo`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.mariadb
@pytest.mark.slow
def test_the_demo_ends_with_equal_tables_and_leaves_nothing(tmp_path: Path) -> None:
    # Not pytest's own directory, which MariaDB's user may not enter.
    place = Path(f"/tmp/{tmp_path.name}-{os.getpid()}")
    place.mkdir(mode=0o755)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", "cdc", "demo", "--seconds", "10"],
            env={**os.environ, "TMPDIR": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert "All tables are equal" in result.stdout
        assert "nyc.airlines" in result.stdout
        assert list(place.iterdir()) == []
    finally:
        place.rmdir()
