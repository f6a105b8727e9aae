"""Checks of plain values, as JSON has them, from which a description of something larger is put together."""

import math
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

# where something is wrong, the value that stands there, and what was expected
Fault = tuple[str, Any, str]
Check = Callable[[Any], Fault | None]
# stands there where a field is not
MISSING = object()
# the whole numbers of SQLite and Parquet end here
_LARGEST, _LARGEST_FLOAT = 2**63 - 1, sys.float_info.max


def whole(low: int = -_LARGEST) -> Check:
    """Takes whole numbers of 64 bits, from the lowest on."""
    expected = "a whole number" if low == -_LARGEST else f"a whole number from {low} on"
    return lambda value: None if type(value) is int and low <= value <= _LARGEST else ("", value, expected)


def number(low: float = -_LARGEST_FLOAT, high: float = _LARGEST_FLOAT, expected: str = "a finite number") -> Check:
    """Takes whole and other numbers between two bounds."""

    def check(value: Any) -> Fault | None:
        kind = type(value)
        fits = kind is float or (kind is int and -_LARGEST <= value <= _LARGEST)
        return None if fits and low <= value <= high else ("", value, expected)

    return check


def any_number() -> Check:
    """Takes numbers, also those that JSON has no word for."""
    finite = number(expected="a number")
    return lambda value: None if type(value) is float and not math.isfinite(value) else finite(value)


def text(fits: Callable[[str], Any] = lambda value: True, expected: str = "a text") -> Check:
    """Takes texts that fit."""
    return lambda value: None if type(value) is str and fits(value) else ("", value, expected)


def optional(check: Check) -> Check:
    """Takes null too."""
    return lambda value: None if value is None else check(value)


def many(each: Check) -> Check:
    """Takes lists whose parts are all taken."""

    def check(value: Any) -> Fault | None:
        if type(value) is not list:
            return "", value, "a list"
        for place, part in enumerate(value):
            fault = each(part)
            if fault is not None:
                return f"[{place}]{fault[0]}", fault[1], fault[2]
        return None

    return check


def fields(
    known: Mapping[str, Check],
    needed: Collection[str] = (),
    others: Check = lambda value: None,
    together: Collection[str] = (),
) -> Check:
    """Takes objects whose fields are all taken.

    Args:
        known: the check of each field.
        needed: fields that may not be missing.
        others: the check of fields that are not known.
        together: fields of which none may be missing where one is there.
    """
    asked, joined = frozenset(needed), frozenset(together)

    def check(value: Any) -> Fault | None:
        if type(value) is not dict:
            return "", value, "an object"
        names = value.keys()
        if not asked <= names or (joined and not joined.isdisjoint(names) and not joined <= names):
            # in the order in which they were given
            name = next(name for name in (*needed, *together) if name not in value)
            fault = known[name](MISSING)
            return f".{name}", MISSING, fault[2] if fault is not None else "a value"
        for name, part in value.items():
            fault = known.get(name, others)(part)
            if fault is not None:
                return f".{name}{fault[0]}", fault[1], fault[2]
        return None

    return check
