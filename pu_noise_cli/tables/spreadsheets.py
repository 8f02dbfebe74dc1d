"""Sheets of Excel workbooks as tables."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from ..errors import InputError, UsageError, option

LOG = logging.getLogger("punoise")
MAX_WHOLE = 2**53  # up to which floating-point numbers hold whole ones exactly


def read_sheet(name: str, file: BinaryIO, sheet: str | None, decimal: str) -> pa.Table:
    """Read a sheet, by default the first one; its first row that is not blank is the header.

    Cells keep their types. Where a column has numbers and text, numbers become text with this
    decimal mark. Errors of formulas, such as #DIV/0!, are missing values.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise UsageError(
            f"{name}: to read a workbook, pip install 'punoise[excel]', or save the sheet as CSV"
        ) from None
    try:
        book = CalamineWorkbook.from_filelike(file)
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"{name}: no sheet {sheet!r}; {option('sheet')} takes one of {known}")
        cells = book.get_sheet_by_name(sheet or names[0]).to_python()
    except CalamineError as error:
        raise InputError(f"{name}: not a workbook that can be read ({error})") from error
    if sheet is None and len(names) > 1:
        others = ", ".join(map(repr, names[1:]))
        LOG.info("%s: reading its sheet %r, not %s", name, names[0], others)
    return _table(name, [row for row in cells if any(value != "" for value in row)], decimal)


def _table(name: str, rows: Sequence[Sequence[Any]], decimal: str) -> pa.Table:
    if not rows:
        raise InputError(f"{name}: the sheet is empty")
    header = [_text(value, ".").strip() for value in rows[0]]
    columns = dict(enumerate(zip(*rows[1:], strict=True))) if len(rows) > 1 else {}
    for i, title in enumerate(header):
        values = columns.get(i, ())
        if not title and any(value != "" for value in values):
            row = next(row for row, value in enumerate(values, 1) if value != "")
            raise InputError(
                f"{name}: column {i + 1} has a value in row {row} but no name in the first row; "
                "name it there, and remove titles above the header"
            )
    kept = [i for i, title in enumerate(header) if title]
    arrays = [_column(columns.get(i, ()), decimal) for i in kept]
    return pa.Table.from_arrays(arrays, [header[i] for i in kept])


def _column(values: Sequence[Any], decimal: str) -> pa.Array:
    """The cells of a column: truth values, numbers, or else text."""
    kinds = {type(value) for value in values if value != ""}
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        known = [None if value == "" else value for value in values]
        is_whole = all(v is None or (abs(v) < MAX_WHOLE and v == int(v)) for v in known)
        if kinds == {bool}:
            return pa.array(known, pa.bool_())
        if is_whole:  # ids, which are then written without a decimal point
            return pa.array([None if v is None else int(v) for v in known], pa.int64())
        return pa.array(known, pa.float64())
    return pa.array([_text(value, decimal) for value in values], pa.string())


def _text(value: Any, decimal: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value).replace(".", decimal)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
