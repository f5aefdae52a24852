"""Running the blocks of a page, as one program."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout

__all__ = ["print_what_blocks_print", "run_blocks"]


def run_blocks(blocks: Sequence[tuple[str, str]]) -> list[str]:
    """Run blocks, each with its name, in one namespace; what each printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = []
    for where, source in blocks:
        with redirect_stdout(io.StringIO()) as output:
            exec(compile(source, where, "exec"), namespace)
        printed.append(output.getvalue())
    return printed


def print_what_blocks_print(blocks: Sequence[tuple[str, str]]) -> None:
    """As `run_blocks`, with JSON on standard output, and no warnings."""
    warnings.simplefilter("ignore")
    print(json.dumps(run_blocks(blocks)))
