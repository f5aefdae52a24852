"""pypaimon's own tests of its REST client, with their mock of a server replaced by this one.

The tests are Apache Paimon's and are not copied here: ``tests/interop/environments`` fetches them
at the commit that it names. Which of them cannot run is in ``pypaimon_suite/cannot_run.toml``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("pypaimon_suite")
PYTHON = ROOT / ".interop" / "pypaimon-suite" / "bin" / "python"
SOURCE = ROOT / ".interop" / "paimon-source" / "paimon-python"
MODULES = [
    "api_test",
    "client_test",
    "dlf_signer_test",
    "rest_base_test",
    "rest_branch_test",
    "rest_catalog_commit_snapshot_test",
    "rest_catalog_test",
    "rest_create_partitions_test",
    "rest_format_table_test",
    "rest_function_test",
    "rest_iceberg_table_test",
    "rest_object_table_test",
    "rest_permission_test",
    "rest_read_write_test",
    "rest_simple_test",
    "rest_tag_test",
    "rest_token_file_io_test",
    "test_exponential_retry_strategy",
    "test_fuse_local_path",
    "token_loader_test",
]
NO_TEST_LEFT = 5
"""What pytest ends with when every test of a module is left out."""

pytestmark = [pytest.mark.interop_suite, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def tests() -> Path:
    """The folder of pypaimon's REST tests."""
    folder = SOURCE / "pypaimon" / "tests" / "rest"
    if not PYTHON.exists() or not folder.exists():
        pytest.skip("pypaimon's tests are not here: run tests/interop/environments")
    return folder


def test_every_module_is_run(tests: Path) -> None:
    there = {path.stem for path in tests.glob("*.py") if re.search(r"(^test_|_test$)", path.stem)}
    assert there == set(MODULES)


@pytest.mark.parametrize("client", ["release", "source"])
@pytest.mark.parametrize("module", MODULES)
def test_pypaimons_own_tests_pass(module: str, client: str, tests: Path, tmp_path: Path) -> None:
    folders = [SOURCE, SUITE] if client == "source" else [SUITE]
    done = subprocess.run(
        [
            # -P: the checkout must not come before the release by being the current folder.
            *(str(PYTHON), "-P", "-m", "pytest", "-p", "substitute", "-p", "no:cacheprovider"),
            # The checkout lies inside this project, whose settings of pytest are not for it.
            *("-c", os.devnull, "--rootdir", str(SOURCE), "--tb=short", "-q"),
            str(tests / f"{module}.py"),
        ],
        env={
            **os.environ,
            "HEADWATER_PYTHON": sys.executable,
            "PYPAIMON_CLIENT": client,
            "PYPAIMON_SOURCE": str(SOURCE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "NO_PROXY": "*",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout.strip().rpartition("\n")[2])
    assert done.returncode in (0, NO_TEST_LEFT), done.stdout[-20000:] + done.stderr[-4000:]
