"""What the values of a column mean: numbers, truth values, and those that are missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .errors import InputError
from .rows import Chunk, shown

MISSING_TEXTS = (
    *("", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "-nan"),
    *("NULL", "null", "None"),
)
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"
BOOLEANS = {"true": 1.0, "false": 0.0}
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers; NaN where missing and at the `odd` rows, which hold other text."""

    values: NDArray[np.float64]
    odd: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    text: pa.Array | None = None  # trimmed, null where missing; only of text columns

    @classmethod
    def of(cls, chunk: Chunk, name: str, na: Sequence[str]) -> Numbers:
        column = chunk.batch[name]
        if not pa.types.is_string(column.type):
            single = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
            kind = column.type.to_pandas_dtype() if single else np.float64
            return cls(_without(na, cast_numbers(chunk, name, column), kind))
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(_is_missing_text(text, na), pa.scalar(None, text.type), text)
        try:
            return cls(_without(na, _as_floats(pc.cast(text, pa.float64()))), text=text)
        except pa.ArrowInvalid:
            fits = pc.match_substring_regex(text, NUMBER)
            odd = np.flatnonzero(np.asarray(pc.fill_null(pc.invert(fits), False)))
            numbers = pc.cast(pc.if_else(fits, text, pa.scalar(None, text.type)), pa.float64())
            return cls(_without(na, _as_floats(numbers)), odd, text)


def _without(
    na: Sequence[str], values: NDArray[np.float64], kind: Any = np.float64
) -> NDArray[np.float64]:
    """Numbers, NaN where one of them means a missing value: -1 is also written -1.0.

    The file has them in floats of a kind, of which -9.99 may be another.
    """
    meant = np.array(_numbers_in(na), kind)
    return np.where(np.isin(values, meant), np.nan, values) if len(meant) else values


def _numbers_in(texts: Sequence[str]) -> list[float]:
    return [float(text) for text in texts if re.fullmatch(NUMBER, text)]


def all_finite(column: pa.Array) -> bool:
    """Whether all that a column has are finite numbers, as its type and its extremes tell."""
    if column.null_count:
        return False
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type) or len(column) == 0:
        return False
    values = column.to_numpy()
    return bool(np.isfinite([values.min(), values.max()]).all())


def _as_floats(column: pa.Array) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def cast_numbers(chunk: Chunk, name: str, column: pa.Array) -> NDArray[np.float64]:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise InputError(
            f"{chunk.file}: column {shown(name)} has type {kind}, which is neither number, truth "
            "value nor text; leave it out with --drop-columns"
        )
    return _as_floats(pc.cast(column, pa.float64(), safe=False))


def holds(chunk: Chunk, name: str, text: str) -> bool:
    """Whether a column has a text, or a number that is written so."""
    column = chunk.batch[name]
    if pa.types.is_string(column.type):
        if pc.any(pc.equal(pc.utf8_trim_whitespace(column), text)).as_py():
            return True
    elif pa.types.is_boolean(column.type):
        return False
    if not re.fullmatch(NUMBER, text):
        return False
    with_it, without = (np.isnan(Numbers.of(chunk, name, na).values) for na in ([], [text]))
    return bool((with_it != without).any())


def _is_missing_text(text: pa.Array, na: Sequence[str]) -> pa.Array:
    known = pa.array([*MISSING_TEXTS, *na], text.type)
    return pc.or_(pc.is_null(text), pc.is_in(pc.utf8_trim_whitespace(text), known))


def is_missing(text: pa.Array, na: Sequence[str]) -> pa.Array:
    """Which values of a category are missing, shape (n,); some may yet be numbers."""
    missing, meant = _is_missing_text(text, na), _numbers_in(na)
    if not meant:
        return missing
    text = pc.utf8_trim_whitespace(text)
    fits = pc.match_substring_regex(text, NUMBER)
    numbers = pc.cast(pc.if_else(fits, text, pa.scalar(None, text.type)), pa.float64())
    return pc.or_(missing, pc.is_in(numbers, pa.array(meant)))


def booleans(numbers: Numbers) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The values of a column of truth values, and where there is one."""
    values = numbers.values.copy()
    if numbers.text is not None:
        words = pc.utf8_lower(numbers.text)
        for word, value in BOOLEANS.items():
            values[np.asarray(pc.fill_null(pc.equal(words, word), False))] = value
    return values, ~np.isnan(values)
