"""Stub."""


def apply_change(*a, **k):
    raise NotImplementedError
