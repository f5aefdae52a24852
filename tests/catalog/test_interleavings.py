"""Every pair of operations on a table, interleaved at their steps on files and SQL.

`make test-modes` runs all pairs, and `make test-slow` also stops the second operation of each.
`make test` runs the pairs in which races were found, and a sample of the others;
HEADWATER_INTERLEAVING_SEED chooses another sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from tests.catalog.interleaved_operations import OPERATIONS, STATES, Client, Operation
from tests.catalog.interleaved_runs import Interleaver, Run
from tests.catalog.interleaved_tables import TABLE, StartingState
from tests.catalog.interleavings import Step

from headwater.storage.files.local import local_path

NewInterleaver = Callable[[str], Interleaver]

SEED = int(os.environ.get("HEADWATER_INTERLEAVING_SEED", "1"))
SAMPLES, PAIRS_OF_SAMPLE, STOPS_OF_PAIR = 4, 5, 3
MAX_SHOWN = 3

PAIRS = [
    (state, first.name, second.name)
    for state, operations in OPERATIONS.items()
    for first in operations
    for second in operations
]
RACES = [
    ("appended", "delete_tag", "expire"),
    ("compacted", "expire", "renew_branch"),
    ("indexed", "expire_some", "expire"),
    ("history", "expire", "rename_tag"),
    ("history", "expire", "rename_branch"),
    ("history", "expire", "roll_back_to_tag"),
    ("history", "expire", "forward_other"),
    ("history", "expire", "set_consumer"),
    ("changelog", "expire", "set_consumer"),
]
"""Pairs of operations that once lost rows, made a table unreadable, or failed for no reason."""

WRONG_OUTCOMES = [
    ("history", "create_due_tags", "forward_other"),
    ("history", "create_tag", "drop_and_purge"),
    ("history", "fast_forward", "drop"),
    ("history", "replace_tag", "drop"),
    ("history", "branch_of_tag", "drop"),
    ("history", "clone", "clone_tag"),
    ("changelog", "renew_branch", "renew_branch"),
]
"""Pairs of which one once reported another outcome than it had, or changed another's table."""


def _operation(state: str, name: str) -> Operation:
    (operation,) = [each for each in OPERATIONS[state] if each.name == name]
    return operation


@pytest.fixture(scope="session")
def interleaver(tmp_path_factory: pytest.TempPathFactory) -> NewInterleaver:
    """Makes a starting state once for all tests."""
    made: dict[str, Interleaver] = {}

    def make(state: str) -> Interleaver:
        if state not in made:
            directory = tmp_path_factory.mktemp(state)
            made[state] = Interleaver(StartingState(directory, STATES[state]))
        return made[state]

    return make


def _require_none_wrong(runs: Iterable[Run]) -> None:
    every = list(runs)
    wrong = [str(run) for run in every if run.violations]
    shown = "\n".join(wrong[:MAX_SHOWN])
    assert not wrong, f"{len(wrong)} of {len(every)} interleavings are wrong, such as\n{shown}"


def _check_pair(
    interleaver: Interleaver, state: str, first: str, second: str, *, in_parts: bool = False
) -> None:
    pair = (_operation(state, first), _operation(state, second))
    _require_none_wrong(interleaver.pair(*pair, in_parts=in_parts))


@pytest.mark.parametrize(("state", "first", "second"), RACES)
def test_pairs_that_had_races_have_none(
    interleaver: NewInterleaver, state: str, first: str, second: str
) -> None:
    _check_pair(interleaver(state), state, first, second, in_parts=True)


@pytest.mark.parametrize(("state", "first", "second"), WRONG_OUTCOMES)
def test_pairs_report_the_outcomes_that_they_have(
    interleaver: NewInterleaver, state: str, first: str, second: str
) -> None:
    _check_pair(interleaver(state), state, first, second)


@pytest.mark.modes
@pytest.mark.parametrize(
    ("state", "first", "second"), [pair for pair in PAIRS if pair not in (*RACES, *WRONG_OUTCOMES)]
)
def test_no_pair_has_a_race(
    interleaver: NewInterleaver, state: str, first: str, second: str
) -> None:
    _check_pair(interleaver(state), state, first, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "first", "second"), [pair for pair in PAIRS if _operation(*pair[:2]).deletes]
)
def test_no_pair_has_a_race_when_both_are_stopped(
    interleaver: NewInterleaver, state: str, first: str, second: str
) -> None:
    _check_pair(interleaver(state), state, first, second, in_parts=True)


@pytest.mark.parametrize("seed", range(SEED * SAMPLES, (SEED + 1) * SAMPLES))
def test_a_sample_of_interleavings_has_no_race(interleaver: NewInterleaver, seed: int) -> None:
    numbers = random.Random(seed)
    runs: list[Run] = []
    for state, first, second in numbers.sample(PAIRS, PAIRS_OF_SAMPLE):
        pair = (_operation(state, first), _operation(state, second))
        runs.append(interleaver(state).run(*pair, 0))
        steps = len(runs[-1].interleaving.first.steps)
        for _ in range(STOPS_OF_PAIR):
            runs.append(interleaver(state).run(*pair, numbers.randint(1, max(steps, 1))))
    _require_none_wrong(runs)


def test_a_tag_that_is_gone_after_a_rollback_and_a_fast_forward(
    interleaver: NewInterleaver,
) -> None:
    """The tag is of a snapshot before the branch begins, so neither of the two removes it."""
    pair = (_operation("history", "roll_back_to_tag"), _operation("history", "forward_other"))
    steps = len(interleaver("history").run(*pair, 0).interleaving.first.steps)
    _require_none_wrong([interleaver("history").run(*pair, steps + 100)])


# The harness itself --------------------------------------------------------------------------


def _read_and_delete(client: Client) -> None:
    """Delete the files of snapshot 5 unless a tag keeps it, which is looked for only once."""
    tags = client.table.tags()
    if all(tag.snapshot.id != 5 for tag in tags):
        client.lake.catalog.snapshots.get(client.table.identifier, "5")
        for path in client.state.known[client.table.snapshot(5).uuid or ""].files:
            client.table.storage.files.delete(f"file://{path}")


CARELESS = Operation("delete_carelessly", [_read_and_delete])
"""An operation with a race: what keeps files may come after it has looked for that."""


def test_a_planted_race_is_found(interleaver: NewInterleaver) -> None:
    """A tag that is made in between lacks its files; one that was there before keeps them."""
    create = _operation("history", "create_tag")
    runs = list(interleaver("history").pair(CARELESS, create))
    lacking = [run for run in runs if any("tag new" in text for text in run.violations)]
    assert lacking
    assert not any("tag new" in text for text in runs[0].violations)
    assert "delete_carelessly stood before its step" in str(lacking[0])


def test_a_run_can_be_repeated(interleaver: NewInterleaver) -> None:
    """Files, database, steps and findings are the same each time."""
    it = interleaver("history")
    pair = (_operation("history", "expire"), _operation("history", "branch_of_snapshot"))

    once, again = (it.run(*pair, 40) for _ in range(2))
    assert once.digest == again.digest
    assert (once.outcomes, once.violations) == (again.outcomes, again.violations)
    for actors in (
        (once.interleaving.first, again.interleaving.first),
        (once.interleaving.second, again.interleaving.second),
    ):
        steps, same = ([str(step) for step in actor.steps] for actor in actors)
        assert steps == same


def test_a_starting_state_is_restored(interleaver: NewInterleaver) -> None:
    state = interleaver("history").state
    state.restore()
    before = {path: path.read_bytes() for path in state.home.rglob("*") if path.is_file()}
    directories = {path for path in state.home.rglob("*") if path.is_dir()}
    for name in ("clone", "drop_and_purge", "roll_back_to_tag", "branch_of_tag", "remove_orphans"):
        operation = _operation("history", name)
        interleaver("history").run(operation, operation, 5)
    state.restore()
    assert {path: path.read_bytes() for path in state.home.rglob("*") if path.is_file()} == before
    assert {path for path in state.home.rglob("*") if path.is_dir()} == directories


def test_a_write_transaction_of_the_other_is_waited_for(interleaver: NewInterleaver) -> None:
    """The first one stops while its transaction is open; the second one needs one, too."""
    it = interleaver("history")
    write = _operation("history", "write")
    other = replace(_operation("history", "overwrite"), calls=[_write_another])
    begun = [
        index
        for index, step in enumerate(it.run(write, other, 1000).interleaving.first.steps)
        if step.action == "write transaction"
    ]
    run = it.run(write, other, begun[0] + 1)
    steps = run.interleaving.second.steps
    assert run.interleaving.is_complete
    assert run.outcomes == ["write succeeded", "overwrite succeeded"]
    # The first one committed before the second one began its transaction, which then came too late.
    assert [step.action for step in steps].count("write transaction") > len(begun)


def _write_another(client: Client) -> None:
    client.table.write({"n": [75], "day": ["2024-01-01"]})


@pytest.mark.parametrize(
    ("first", "second", "commutes"),
    [
        (Step("read", "/a/b"), Step("read", "/a/b"), True),
        (Step("read", "/a/b"), Step("write", "/a/b"), False),
        (Step("read", "/a/b"), Step("write", "/a/c"), True),
        (Step("list", "/a"), Step("put", "/a/c"), False),
        (Step("walk", "/a"), Step("delete", "/b/c"), True),
        (Step("read", "/a/b/c"), Step("delete tree", "/a"), False),
        (Step("delete", "/a"), Step("delete", "/a"), True),
        (Step("read transaction", reads={"t"}), Step("commit", changes={"t"}), False),
        (Step("read transaction", reads={"t"}), Step("commit", changes={"u"}), True),
        (Step("read transaction", reads={"t"}), Step("read transaction", reads={"t"}), True),
        (Step("read", "/a"), Step("commit", changes={"t"}), True),
    ],
)
def test_steps_that_touch_different_things_commute(
    first: Step, second: Step, commutes: bool
) -> None:
    assert (first.commutes(second), second.commutes(first)) == (commutes, commutes)


def test_no_interleaving_that_is_left_out_differs(interleaver: NewInterleaver) -> None:
    """What `explore` leaves out ends as what it does before."""
    it = interleaver("history")
    pair = (_operation("history", "rename_branch"), _operation("history", "create_tag"))
    explored = {run.interleaving.stopped_at for run in it.pair(*pair)}
    results: list[bytes] = []
    for stop_at in range(max(explored) + 3):
        results.append(it.run(*pair, stop_at).digest)
        if stop_at not in explored and stop_at > 0:
            assert results[stop_at] == results[stop_at - 1], stop_at


def test_the_table_of_a_starting_state_is_where_it_was(interleaver: NewInterleaver) -> None:
    state = interleaver("compacted").state
    state.restore()
    with state.opened("1") as lake:
        assert local_path(lake.table(TABLE).info.path) == local_path(state.paths[TABLE])
        assert lake.table(TABLE).check_files().is_whole
