"""Small tables with a msgspec.Struct for each row: its fields are the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import pyarrow as pa

from ..errors import InputError
from .files import document
from .reading import Table
from .rows import shown

Record = TypeVar("Record", bound=msgspec.Struct)
ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def table_schema(kind: type[msgspec.Struct]) -> pa.Schema:
    """The columns of a table of records, whose fields are str, int or float, and may be None."""
    hints = get_type_hints(kind).items()
    return pa.schema([(name, ARROW_TYPES[(*get_args(hint), hint)[0]]) for name, hint in hints])


def as_batch(records: Sequence[Record], kind: type[Record]) -> pa.RecordBatch:
    """Records as a table."""
    return pa.RecordBatch.from_pylist(list(map(document, records)), table_schema(kind))


def read_records(
    table: Table, kind: type[Record], role: str, most: int | None = None
) -> list[Record]:
    """The rows of a table; an input error names the file, the row and the column.

    Parameters
    ----------
    role
        What the columns are for, in messages.
    most
        The greatest number of rows.
    """
    schema = table_schema(kind)
    for name in schema.names:
        table.require(name, role)
    texts = {field.name for field in schema if field.type == pa.string()}
    parse = cache(table.notation.number)

    def value(name: str, cell: Any) -> Any:
        if name in texts:
            return "" if cell is None else str(cell)
        if cell in ("", None):
            return None
        number = parse(cell) if isinstance(cell, str) else float(cell)
        if math.isnan(number):
            raise ValueError(f"column {name!r} has {shown(cell)}, which is not a number")
        return number

    records: list[Record] = []
    for batch, file, first_row in table.batches(schema.names):
        for row, cells in enumerate(batch.to_pylist(), start=first_row + 1):
            if len(records) == most:
                raise InputError(f"{table.name}: has more than {most} rows")
            try:
                values = {name: value(name, cell) for name, cell in cells.items()}
                records.append(msgspec.convert(values, kind, strict=False))  # 4.0 is a whole number
            except ValueError as error:
                raise InputError(f"{file}: row {row}: {error}") from None
    return records
