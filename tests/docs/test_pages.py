"""The documentation keeps its word: links lead somewhere, commands exist, examples run."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from headwater.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
    key=str,
)

_FENCE = re.compile(r"^```")
_HEADING = re.compile(r"^#{1,6}\s+(.*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> Iterator[str]:
    """The lines of a page that are not in a fenced block."""
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def fenced(page: Path) -> Iterator[str]:
    """The lines of a page's fenced blocks."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif inside:
            yield line


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    headings = (match[1] for line in prose(page) if (match := _HEADING.match(line)))
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in (match[1] for line in prose(page) for match in _LINK.finditer(line)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        destination = (page.parent / path).resolve() if path else page
        page_of_ours = destination.exists() and destination.suffix == ".md"
        known = anchors(destination) if page_of_ours else set()
        if not destination.exists() or (anchor and anchor not in known):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_tests_that_the_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_plan_of_the_tests_names_those_of_races_and_crashes() -> None:
    plan = (ROOT / "docs" / "test-plan.md").read_text(encoding="utf-8")
    kinds = re.compile(r"races|crashes|faults|errors|model|linearizable|shutdown")
    there = [
        str(path.relative_to(ROOT))
        for room in ("catalog", "server")
        for path in (ROOT / "tests" / room).glob("test_*.py")
        if kinds.search(path.name)
    ]
    assert [path for path in there if f"`{path}`" not in plan] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        for match in (match for line in prose(page) for match in _LINK.finditer(line)):
            if not re.match(r"[a-z]+:", match[1]):
                waiting.append((page.parent / match[1].partition("#")[0]).resolve())
    assert [page_name(page) for page in PAGES if page not in reached] == []


@dataclass(frozen=True)
class Command:
    """A command of the command line, such as ``table files``, with its options."""

    name: str
    options: frozenset[str]


def commands() -> dict[str, Command]:
    root = typer.main.get_command(app)
    found: dict[str, Command] = {}
    waiting = [("", root)]
    while waiting:
        name, command = waiting.pop()
        children = getattr(command, "commands", {})
        waiting += [(f"{name} {child}".strip(), inner) for child, inner in children.items()]
        if not children:
            options = {
                option
                for parameter in command.params
                for option in (*parameter.opts, *parameter.secondary_opts)
                if option.startswith("-")
            }
            found[name] = Command(name, frozenset(options | {"--help", "-h"}))
    return found


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_and_option_is_documented(name: str) -> None:
    command = commands()[name]
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert f"headwater {name}" in text
    long = {option for option in command.options if option.startswith("--")} - {"--help"}
    assert {option for option in long if option not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_command_lines_on_the_page_exist(page: Path) -> None:
    known = commands()
    for line in fenced(page):
        if not line.startswith(("headwater ", "$ headwater ")):
            continue
        words = shlex.split(line.removeprefix("$ ").rstrip("\\"), comments=True)[1:]
        if words in (["--version"], ["--help"]):
            continue
        names = [name for name in known if words[: len(name.split())] == name.split()]
        assert names, f"no such command: {line}"
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= known[names[0]].options, line


def test_the_readme_installs_what_there_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "README.md").read_text()
    section = text.partition("## Install\n")[2].partition("\n## ")[0]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in section
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    extras = set(project["optional-dependencies"])
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == extras
    asked = re.findall(r"(?:\.|headwater)\[([\w,-]+)\]", section)
    assert asked
    assert {name for names in asked for name in names.split(",")} <= extras
