"""An engine's process: ``program.py ENGINE JOB``.

A request is a line of JSON on stdin, a method of the engine and its arguments; the answer is a
marked line of JSON with what it took and what it returned.
"""

from __future__ import annotations

import json
import os
import sys

# Those of the process that started this one are another Spark's.
for name in ("SPARK_HOME", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"):
    os.environ.pop(name, None)
os.environ["PYSPARK_PYTHON"] = sys.executable

from benchmarks.spark.processor import spent  # noqa: E402
from benchmarks.spark.rivals.engine import Engine, Job  # noqa: E402

MARK = "answer "
"""The beginning of an answer; Spark prints lines of its own."""


def _engine(kind: str, job: Job) -> Engine:
    # Each in its own environment, which lacks what the others need.
    if kind == "headwater":
        from benchmarks.spark.rivals.headwater_engine import HeadwaterEngine

        return HeadwaterEngine(job)
    if kind == "delta":
        from benchmarks.spark.rivals.delta_engine import DeltaEngine

        return DeltaEngine(job)
    from benchmarks.spark.rivals.paimon_engine import PaimonEngine

    return PaimonEngine(job)


def _answer(engine: Engine, method: str, *arguments: str) -> dict[str, object]:
    """The answer to a request."""
    answers: list[object] = []
    took = spent(lambda: answers.append(getattr(engine, method)(*arguments)))
    return {"wall": took.wall, "processor": took.processor, "answer": answers[0]}


def main(kind: str, job: str) -> None:
    engine = _engine(kind, Job(**json.loads(job)))
    try:
        for line in sys.stdin:
            print(f"\n{MARK}{json.dumps(_answer(engine, *json.loads(line)))}", flush=True)
    finally:
        engine.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
