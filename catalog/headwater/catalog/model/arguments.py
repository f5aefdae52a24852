"""Arguments of public methods, checked against the methods' annotations before anything is done.

Python takes any value for any argument: a number where a name belongs would fail deep inside, or be
stored as it is.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, wraps
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from headwater.storage.errors import Invalid
from headwater.storage.schema.given import given_names, given_texts

__all__ = ["checks_arguments"]

C = TypeVar("C")

_LISTS = (Sequence, Collection, Iterable)
_WORDS: Mapping[object, str] = {
    NoneType: "None",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    datetime: "a datetime with a time zone",
    timedelta: "a timedelta, such as timedelta(days=1)",
}


class _Wrong(Exception):
    """A value that is not of the kind."""


def checks_arguments(owner: type[C]) -> type[C]:
    """Let a class's own public methods refuse arguments of which the annotation is another.

    Checked are text, numbers, truth values, times, classes, ``Literal``, and lists and mappings of
    text, alone, as alternatives or beside None. What else an annotation says is the method's own
    to check. NumPy's scalars become Python's, and lists of text tuples.

    Methods then raise Invalid, which names the argument, what was given and what belongs there.
    """
    for name, member in list(vars(owner).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(owner, name, _checking(member))
    return owner


def _checking(function: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(function)
    variadic = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL
    }

    @cache
    def kinds() -> dict[str, object]:
        # At the first call, as aliases of types may stand below the class.
        found = {name: _kind(function, name) for name in signature.parameters}
        return {name: kind for name, kind in found.items() if _is_checked(kind)}

    @wraps(function)
    def checked(*arguments: object, **named: object) -> object:
        try:
            given = signature.bind(*arguments, **named)
        except TypeError:
            # Python itself says best which argument is missing, or there is none of.
            return function(*arguments, **named)
        for name, kind in kinds().items():
            if name not in given.arguments:
                continue
            value = given.arguments[name]
            where = f"{function.__name__}: {name}"
            given.arguments[name] = (
                tuple(_taken(each, kind, where) for each in value)
                if name in variadic
                else _taken(value, kind, where)
            )
        return function(*given.args, **given.kwargs)

    return checked


def _kind(function: FunctionType, name: str) -> object:
    """The annotation of a parameter; Any without one, or where only type checkers know it."""
    annotation = function.__annotations__.get(name, Any)
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__)
    except NameError:
        return Any


def _is_checked(kind: object) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        # A class among alternatives is the method's to tell: it knows what else will do.
        return all(
            _is_checked(each) and (get_origin(each) is not None or each in _WORDS)
            for each in get_args(kind)
        )
    if origin in _LISTS:
        return get_args(kind) == (str,)
    if origin is Mapping:
        return get_args(kind)[0] is str
    if origin is not None:
        return origin in (Literal, os.PathLike)
    return kind in _WORDS or (
        isinstance(kind, type)
        and kind.__module__.startswith("headwater.")
        and not getattr(kind, "_is_protocol", False)
    )


def _taken(value: object, kind: object, where: str) -> object:
    """A value of a kind, as it is passed on; raises Invalid if it is of none."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    value = _plain(value)
    for each in kinds:
        try:
            return _of_kind(value, each, where)
        except _Wrong:
            continue
    given = "None" if value is None else f"the {type(value).__name__} {reprlib.repr(value)}"
    raise Invalid(f"{where} is {given}: give {_words(kinds)}")


def _of_kind(value: object, kind: object, where: str) -> object:
    origin = get_origin(kind)
    if origin is Literal:
        fits = any(value == each and type(value) is type(each) for each in get_args(kind))
    elif origin is Mapping:
        if isinstance(value, Mapping):
            return _text_mapping(value, kind, where)
        fits = False
    elif origin in _LISTS:
        if isinstance(value, Iterable) and not isinstance(value, Mapping):
            return tuple(map(_plain, given_names(value, where)))
        fits = False
    elif origin is os.PathLike:
        fits = isinstance(value, os.PathLike)
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        assert isinstance(kind, type)
        # True is an int to Python.
        fits = isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
    if not fits:
        raise _Wrong
    return value


def _text_mapping(value: Mapping[Any, object], kind: object, where: str) -> Mapping[Any, object]:
    """A mapping by text, and to text where the kind says so; raises Invalid if it is none."""
    for name in value:
        if not isinstance(name, str):
            raise Invalid(f"{where} has the {type(name).__name__} {name!r} for a name: give text")
    if get_args(kind)[1] is not str:
        return {_plain(name): item for name, item in value.items()}
    texts = given_texts(value, f"{where}:")
    return {_plain(name): _plain(text) for name, text in texts.items()}


def _plain(value: object) -> object:
    """Python's value of a number, a truth value or text of NumPy's."""
    if isinstance(value, np.number | np.bool_ | np.str_) and not isinstance(value, np.timedelta64):
        plain: object = value.item()
        return plain
    return value


def _words(kinds: Iterable[object]) -> str:
    """The values that belong there, for people."""
    words: list[str] = []
    for kind in kinds:
        origin = get_origin(kind)
        if origin is Literal:
            words += [repr(value) for value in get_args(kind)]
        elif origin is Mapping:
            words.append("a mapping by text")
        elif origin in _LISTS:
            words.append("a list of text")
        elif origin is os.PathLike:
            words.append("a path")
        else:
            assert isinstance(kind, type)
            words.append(_WORDS.get(kind, f"a {kind.__name__}"))
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
