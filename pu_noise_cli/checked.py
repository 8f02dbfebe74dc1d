"""Values of JSON documents that may come from anywhere: what each must be, else a ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .sketch import FloatArray

T = TypeVar("T")


def optional(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value.encode("utf-8", "backslashreplace").decode()  # JSON may hold half a character


def finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


def share(value: Any) -> float:
    if not 0 <= finite(value) <= 1:
        raise ValueError(f"{value!r} is not a share between 0 and 1")
    return float(value)


def count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return value


def interval(value: Any) -> tuple[float, float]:
    low, high = value
    if share(low) > share(high):
        raise ValueError(f"the interval {value!r} ends before it begins")
    return float(low), float(high)


def numbers(value: Any, of: Callable[[Any], float] = finite) -> FloatArray:
    return np.array([of(item) for item in value], np.float64)
