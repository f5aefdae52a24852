"""The plan of an upkeep: the actions that are due for each table, and their progress."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from headwater.catalog.table.progress import progress_bar
from headwater.client.lake import Lake
from headwater.client.maintenance.actions import DEFAULT_ACTIONS, Action, Rules, due
from headwater.storage.errors import AlreadyExists, HeadwaterError, Invalid, NotFound, Unavailable

__all__ = ["MaintenancePlan", "PlanFile", "State", "Step", "plan_maintenance"]

_VERSION = 1
_MILLISECOND = timedelta(milliseconds=1)
_LOOKS_AT_ONCE = 8


class State(StrEnum):
    """The progress of a step."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Step:
    """One action for one table.

    Attributes:
        table: ``database.table``.
        action: The action.
        due: The work that was found when the plan was made, in words.
        size: Bytes that it rewrites.
        state: Its progress; a step that was interrupted waits.
        outcome: The work that was done, or the reason why not; empty for a step not yet begun.
    """

    table: str
    action: Action
    due: str
    size: int = 0
    state: State = State.WAITING
    outcome: str = ""


class MaintenancePlan:
    """Steps for many tables, and how far each has come.

    Args:
        warehouse: The warehouse of the tables.
        rules: The arguments of the actions.
        steps: Those of a table follow each other in the order in which they are done.
    """

    def __init__(self, warehouse: str, rules: Rules, steps: Iterable[Step] = ()) -> None:
        self.warehouse = warehouse
        self.rules = rules
        self._steps = {(step.table, step.action): step for step in steps}

    def __repr__(self) -> str:
        states = ", ".join(f"{len(self.in_state(each))} {each}" for each in State)
        return f"MaintenancePlan({self.warehouse}: {states})"

    @property
    def steps(self) -> list[Step]:
        """All steps."""
        return list(self._steps.values())

    def in_state(self, state: State) -> list[Step]:
        """The steps that have come so far."""
        return [step for step in self._steps.values() if step.state is state]

    def record(self, step: Step) -> None:
        """Put a later state of a step in its place."""
        self._steps[step.table, step.action] = step


class PlanFile:
    """A plan in a file: a line of JSON for the whole, then one for each step and each change of it.

    A change is added at the end, so that its cost does not grow with the plan; of the lines of one
    step the last counts. A line that was cut off by a crash is left out: its step is done again.

    Args:
        path: The file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def create(self, plan: MaintenancePlan) -> None:
        """Write a plan to a new file.

        Raises:
            AlreadyExists: There is such a file.
            Unavailable: The file cannot be written.
        """
        head = {
            "version": _VERSION,
            "warehouse": plan.warehouse,
            "full": plan.rules.full,
            "orphans-older-than-millis": plan.rules.orphans_older_than // _MILLISECOND,
        }
        lines = [json.dumps(head), *(json.dumps(asdict(step)) for step in plan.steps)]
        try:
            with self._path.open("x", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except FileExistsError:
            raise AlreadyExists(
                f"there is a file {self._path} already: resume the plan in it, or name another"
            ) from None
        except OSError as error:
            raise self._unavailable("write", error) from error

    def add(self, step: Step) -> None:
        """Write a change of a step; raises Unavailable when that fails."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(step)) + "\n")
        except OSError as error:
            raise self._unavailable("write", error) from error

    def read(self) -> MaintenancePlan:
        """The plan; steps that had failed wait again.

        Raises:
            NotFound: There is no such file.
            Invalid: It is no plan.
            Unavailable: The file cannot be read.
        """
        try:
            written = self._path.read_bytes()
            # What follows the last line's end was cut off; the next line must not go on from it.
            whole = written[: written.rfind(b"\n") + 1]
            if len(whole) < len(written):
                os.truncate(self._path, len(whole))
            lines = whole.decode("utf-8").splitlines()
        except FileNotFoundError:
            raise NotFound(f"there is no plan {self._path}") from None
        except UnicodeDecodeError as error:
            raise self._invalid(error) from error
        except OSError as error:
            raise self._unavailable("read", error) from error
        try:
            head = json.loads(lines[0])
            if head["version"] != _VERSION:
                raise Invalid(
                    f"{self._path} is a plan of another version of Headwater; make a new one"
                )
            older_than = int(head["orphans-older-than-millis"]) * _MILLISECOND
            rules = Rules(bool(head["full"]), older_than)
            plan = MaintenancePlan(str(head["warehouse"]), rules, map(_step, lines[1:]))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise self._invalid(error) from error
        for step in plan.in_state(State.FAILED):
            plan.record(replace(step, state=State.WAITING, outcome=""))
        return plan

    def _unavailable(self, verb: str, error: OSError) -> Unavailable:
        return Unavailable(f"cannot {verb} the plan {self._path}: {error.strerror}")

    def _invalid(self, error: Exception) -> Invalid:
        return Invalid(f"{self._path} is not a plan of Headwater's: {error!r}")


def _step(line: str) -> Step:
    document = json.loads(line)
    return Step(
        str(document["table"]),
        Action(document["action"]),
        str(document["due"]),
        int(document["size"]),
        State(document["state"]),
        str(document["outcome"]),
    )


def plan_maintenance(
    lake: Lake,
    *,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
    actions: Collection[Action] = DEFAULT_ACTIONS,
    rules: Rules | None = None,
    max_tables: int | None = None,
) -> MaintenancePlan:
    """Find out which upkeep is due for which tables. Nothing is changed.

    Args:
        lake: The warehouse.
        include: Patterns of ``database.table``: ``*`` is any text, ``?`` a character, ``[ab]`` one
            of some.
        exclude: Patterns of tables that are left out.
        actions: The kinds of upkeep.
        rules: Their arguments.
        max_tables: The tables with something due that are planned for at most, by their names.

    Returns:
        The plan. A table that does not allow an action has a step in the state ``refused``.

    Raises:
        Invalid: A pattern of `include` matches no table.
    """
    chosen = rules or Rules()
    names = list(_names(lake, include, exclude))
    ordered = [action for action in Action if action in actions]
    look = partial(_steps_of, lake, ordered, chosen)
    steps: list[Step] = []
    tables = 0
    with progress_bar("planning the upkeep", len(names)) as advance:
        for found in _in_threads(look, names):
            advance(1)
            if found and tables == max_tables:
                break
            tables += bool(found)
            steps += found
    return MaintenancePlan(lake.warehouse, chosen, steps)


def _names(lake: Lake, include: Sequence[str], exclude: Sequence[str]) -> Iterator[str]:
    unused = set(include)
    for database in lake.list_databases():
        for table in lake.list_tables(database):
            name = f"{database}.{table}"
            matching = {pattern for pattern in include if fnmatchcase(name, pattern)}
            unused -= matching
            if matching and not any(fnmatchcase(name, pattern) for pattern in exclude):
                yield name
    if unused and unused != {"*"}:
        raise Invalid(f"no table has a name like '{min(unused)}'")


def _in_threads(look: Callable[[str], list[Step]], names: Sequence[str]) -> Iterator[list[Step]]:
    """The findings at each table, in order, a few tables ahead of the reader."""
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as threads:
        for at in range(0, len(names), _LOOKS_AT_ONCE):
            yield from threads.map(look, names[at : at + _LOOKS_AT_ONCE])


def _steps_of(lake: Lake, actions: Sequence[Action], rules: Rules, name: str) -> list[Step]:
    try:
        table = lake.table(name)
    except NotFound:
        return []  # dropped since it was listed
    except HeadwaterError as error:
        return [Step(name, actions[0], "", 0, State.REFUSED, error.message)]
    steps: list[Step] = []
    for action in actions:
        try:
            found = due(action, table, rules)
        except HeadwaterError as error:
            steps.append(Step(name, action, "", 0, State.REFUSED, error.message))
        else:
            if found is not None:
                steps.append(Step(name, action, found.text, found.size))
    return steps
