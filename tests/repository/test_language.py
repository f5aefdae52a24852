"""The English of the project: words and phrases that CONTRIBUTING.md replaces by better ones.

Every file is checked but those in `BASELINE`, which were written before these rules and have not
changed since. A file that changes is checked from then on, so the list only shrinks: remove the
lines of changed files with ``python tests/repository/test_language.py``.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).with_name("language_baseline.txt")
# From Python 3.12 on, the text of an f-string is a token of its own.
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
# Public names from before these rules, which callers use: they may stay, but no new ones.
NAMES_IN_USE = {
    Path("catalog/headwater/catalog/sql/history/commit.py"): {"class Offer"},
    Path("catalog/headwater/catalog/wire/history.py"): {"def of("},
    Path("catalog/headwater/catalog/wire/tables.py"): {"def of("},
    Path("spark/headwater/spark/connection.py"): {"def of("},
    Path("storage/headwater/storage/table_storage.py"): {
        "class CommitAnswer",
        "class Fate",
        "class LongMemory",
        "def of(",
    },
}
# This list names what it bans.
EXEMPT = {Path("tests/repository/test_language.py")}

PROSE = {
    r"\b[Ww]ho(so)?ever\b": "name who does it: the caller, the writer",
    r"\blikewise\b|\banew\b|\bfor good\b|\bbe it\b|\bat hand\b": "delete the word",
    r"(?<![Tt]here )\b(is|are) none\b": "'is not one', 'does not exist'",
    r"(?<![Tt]here )\b(is|are) no (?!longer\b|more\b)[a-z]+": "'is not a …'",
    r"\b(has|have) not(?=[.,;:)]|$)": "'does not have'",
    r"\bTrue (for|if)\b": "'Whether …'",
    r"\bThe time (for|during|after) which\b": "'How long …, in ms'",
    r"\bThe number (of|by|beyond) which\b": "'How many …'",
    r"\bmoments?\b": "timestamp, instant",
    r"\bwhole names?\b": "qualified name",
    r"\bfast lane\b": "request batching",
    r"\b[Uu]pkeep\b": "maintenance",
    r"\bstand-ins?\b": "placeholder relation",
    r"\blaid over\b|\blays? over\b": "overridden, overrides",
    r"\bpostponed rows\b": "rows in the postpone bucket",
    r"\bheld files\b|\btwins?\b": "the field's term, see the glossary",
    r"\bline of snapshots\b": "branch history",
    r"\b(one|the) door\b|\brooms?\b": "entry point; package, module",
    r"\bsnapshot's fate\b|\bcommit's fate\b|\bfate of\b": "commit outcome",
}
CODE = {
    r"^\s*(async )?for (each|one|found|at) in\b": "name the loop variable after the thing",
    r"^\s*found\b(?!\.)[^=(]*=[^=]": "name the variable after the thing",
    r"_(MOST|LONGEST|LEAST|FEWEST)_|_(MOST|LONGEST|LEAST|FEWEST)\b": "MAX_…, MIN_…",
    r"\bdef of\(": "from_…",
    r"^\s*class (Offer|CommitAnswer|Fate|LongMemory|Recent|ThreadShares|RequestBound|Denials)\b": (
        "the glossary's name"
    ),
}


def _files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.skip("not a git checkout")
    paths = (Path(line) for line in result.stdout.splitlines())
    return sorted({path for path in paths if (ROOT / path).is_file() and path not in EXEMPT})


def _digest(path: Path) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16]


def _baseline() -> dict[Path, str]:
    lines = BASELINE.read_text(encoding="utf-8").splitlines()
    return {Path(path): digest for digest, path in (line.split(" ", 1) for line in lines)}


def _prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of Python, and Markdown without its code, line by line."""
    if path.suffix == ".md":
        text = re.sub(r"^(```.*?^```)", _blank, text, flags=re.MULTILINE | re.DOTALL)
        yield from enumerate(re.sub(r"`[^`]*`", "`…`", text).splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in STRINGS or token.type == tokenize.COMMENT:
            without_code = re.sub(r"`[^`\n]*`", "`…`", token.string)
            for offset, line in enumerate(without_code.splitlines()):
                yield token.start[0] + offset, line


def _blank(block: re.Match[str]) -> str:
    return "\n" * block.group().count("\n")


def _faults(path: Path) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    prose = list(_prose(path, text))
    rules = [(pattern, advice, prose) for pattern, advice in PROSE.items()]
    if path.suffix == ".py":
        lines = list(enumerate(text.splitlines(), 1))
        rules += [(pattern, advice, lines) for pattern, advice in CODE.items()]
    return [
        f"{path}:{number}: '{match.group().strip()}': {advice}"
        for pattern, advice, lines in rules
        for number, line in lines
        for match in re.finditer(pattern, line)
        if match.group().strip() not in NAMES_IN_USE.get(path, set())
    ]


def test_new_and_changed_files_use_the_words_of_the_glossary() -> None:
    baseline = _baseline()
    paths = [path for path in _files() if baseline.get(path) != _digest(path)]
    assert [fault for path in paths for fault in _faults(path)] == []


def test_the_baseline_names_unchanged_files_only() -> None:
    stale = [path for path, digest in _baseline().items() if not _is_unchanged(path, digest)]
    assert stale == [], f"run: python {Path(__file__).relative_to(ROOT)}"


def _is_unchanged(path: Path, digest: str) -> bool:
    return (ROOT / path).is_file() and _digest(path) == digest


if __name__ == "__main__":
    unchanged = [
        f"{digest} {path}\n" for path, digest in _baseline().items() if _is_unchanged(path, digest)
    ]
    BASELINE.write_text("".join(unchanged), encoding="utf-8")
