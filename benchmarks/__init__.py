"""Measurements against references that run beside them; `python -m benchmarks`."""
