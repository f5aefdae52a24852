"""What settings of memory do to a process, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROUNDS, BLOCK_BYTES = 20, 24 << 20
FAULTS = f"""
import resource
from headwater.storage.process_memory import {{0}}

def faults():
    for _ in range({ROUNDS}):
        bytearray({BLOCK_BYTES})
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

{{0}}()
before = faults()
print(faults() - before)
"""
ARROW_FAULTS = """
import resource, time
from headwater.storage.process_memory import keep_released_memory

if {0}:
    keep_released_memory()
import pyarrow as pa

def fill(rows, count):
    return [pa.repeat(pa.scalar(1), rows) for _ in range(count)]

def batch():
    rows = fill(1 << 17, 64)
    rows.clear()
    # Arrow returns memory with a call that comes later.
    end = time.process_time() + 0.2
    while time.process_time() < end:
        fill(1 << 15, 1)

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
GARBAGE = """
import gc, weakref
from headwater.storage.process_memory import keep_objects

class Node: pass

gc.disable()
old, new = Node(), Node()
keep_objects()
old.self, new.self, young = old, new, Node()
young.self = young
seen = [weakref.ref(old), weakref.ref(young)]
del old, young
gc.collect()
print([each() is None for each in seen])
"""


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_released_memory_is_kept_or_returned() -> None:
    kept = int(printed(FAULTS.format("keep_released_memory")))
    returned = int(printed(FAULTS.format("return_large_blocks")))
    # Large pages are at most 2 MiB: a block that is mapped again has 12 of them at least.
    assert returned >= 12 * ROUNDS
    assert kept < ROUNDS


@pytest.mark.skipif(sys.platform != "linux", reason="Arrow's allocator on Linux")
def test_memory_that_arrow_releases_is_kept() -> None:
    assert int(printed(ARROW_FAULTS.format(True))) < 100
    if int(printed(ARROW_FAULTS.format(False))) < 100:
        pytest.skip("this system takes no memory back that Arrow's allocator releases")


def test_objects_that_are_kept_are_not_looked_through() -> None:
    assert printed(GARBAGE) == "[False, True]"
