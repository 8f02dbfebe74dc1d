"""Data frames of any library to Arrow tables, and back into the library they came from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InputError, UsageError
from ..numerics import IntArray
from .rows import shown

SCORE = "score"  # the one column of a series or a vector
ROW = "row"  # the place of a row in the caller's table, where there is no index to name it
PLAIN_VALUES = (str, int, float, bool, np.generic)  # that can be read as text
KINDS = "a data frame (pandas, polars, PyArrow, DuckDB), a series, a numpy array or a file name"


@dataclass(frozen=True, eq=False)
class Form:
    """What the caller's table is made of, so that results come back the same way."""

    backend: str = "pandas"
    index: Any = None  # of pandas
    numbered: bool = False  # rows without an index always have their places in pandas' index

    def labels(self, rows: IntArray) -> Any:
        """The index of rows of the caller's table, as far as it has one."""
        import pandas as pd

        return pd.Index(rows) if self.index is None else self.index.take(rows)

    def native(self, table: pa.Table, rows: IntArray | None = None, listed: bool = False) -> Any:
        """A table as a frame of the caller's library.

        Parameters
        ----------
        rows
            Which rows of the caller's table these are, if not all of them in order.
        listed
            Rows without an index get a column `row` with their places in the caller's table.
        """
        if self.backend == "pandas":
            frame = _to_pandas(table)
            if rows is None:
                return frame if self.index is None else frame.set_axis(self.index)
            named = self.index is not None or listed or self.numbered
            return frame.set_axis(self.labels(rows)) if named else frame
        if listed and rows is not None and ROW not in table.column_names:
            table = table.add_column(0, ROW, pa.array(rows))
        if self.backend == "polars":
            import polars as pl

            return pl.from_arrow(table)
        if self.backend == "duckdb":
            import duckdb

            return duckdb.from_arrow(table)
        return table


def _to_pandas(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ModuleNotFoundError as error:
        message = "results of arrays and files are pandas data frames: install pandas"
        raise UsageError(message) from error


def to_arrow(
    name: str, value: Any, unused: Collection[str] = (), series: str = SCORE
) -> tuple[pa.Table, Form]:
    """A caller's table without its unused columns, and what it was made of.

    The values of a series, which have no name to heed, become a column of the name `series`.
    """
    table, form = _converted(name, value, unused, series)
    for field in table.schema:
        if pa.types.is_nested(field.type):
            raise InputError(f"{name}: column {shown(field.name)} has {field.type} values; drop it")
    return table, form


def _converted(
    name: str, value: Any, unused: Collection[str], series: str
) -> tuple[pa.Table, Form]:
    if isinstance(value, pa.Table):
        kept = [column for column in value.column_names if column not in unused]
        return _plain(value.select(kept)), Form("pyarrow")
    if isinstance(value, np.ndarray):
        return _from_numpy(name, value, series), Form()
    import narwhals as nw
    from narwhals.exceptions import NarwhalsError

    value = _with_text_names(value)
    try:
        frame = nw.from_native(value, allow_series=True)
    except (TypeError, NarwhalsError) as error:
        if isinstance(value, (list, tuple)):
            return _converted(name, np.asarray(value), (), series)
        raise InputError(f"{name}: not {KINDS} ({error})") from error
    library = str(frame.implementation)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect(backend="polars" if library == "polars" else "pyarrow")
    form = Form(library, nw.maybe_get_index(frame))
    if isinstance(frame, nw.Series):
        return pa.table({series: _array(name, series, frame)}), form
    used = [column for column in frame.columns if column not in unused]
    return pa.table({column: _array(name, column, frame[column]) for column in used}), form


def _with_text_names(value: Any) -> Any:
    """A pandas frame whose columns have texts as names, each once."""
    columns = getattr(value, "columns", None)
    if columns is None or not hasattr(value, "set_axis"):
        return value
    names = [str(column) for column in columns]
    return value if names == list(columns) else value.set_axis(names, axis=1)


def _from_numpy(name: str, value: np.ndarray[Any, Any], series: str) -> pa.Table:
    if value.ndim not in (1, 2):
        raise InputError(f"{name}: an array of {value.ndim} dimensions; give rows and columns")
    columns = value.reshape(len(value), -1).T
    names = [series] if len(columns) == 1 else [f"x{j}" for j in range(len(columns))]
    return pa.table([_numbers(name, column) for column in columns], names=names)


def _numbers(name: str, values: np.ndarray[Any, Any]) -> pa.Array:
    try:
        return pa.array(np.ascontiguousarray(values), from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{name}: the array does not hold numbers ({error})") from error


def _array(name: str, column: str, series: Any) -> pa.Array | pa.ChunkedArray:
    """A column; numbers and texts in one column become texts, as in a file."""
    try:
        array = series.to_arrow()
    except (pa.ArrowException, TypeError):
        values = series.to_list()
        missing = [value is None or value != value for value in values]
        for value, is_missing in zip(values, missing, strict=True):
            if not is_missing and not isinstance(value, PLAIN_VALUES):
                kind = type(value).__name__
                raise InputError(
                    f"{name}: column {shown(column)} has {kind} objects; drop it"
                ) from None
        array = pa.array(
            [None if gap else str(value) for value, gap in zip(values, missing, strict=True)],
            pa.string(),
        )
    return _as_read(array)


def _plain(table: pa.Table) -> pa.Table:
    return pa.table([_as_read(column) for column in table.columns], names=table.column_names)


def _as_read(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Texts and categories of any representation as the plain texts that files give."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        array = array.cast(kind)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    return array
