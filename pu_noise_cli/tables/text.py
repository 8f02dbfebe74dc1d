"""CSV and TSV: the header, and the rows in batches, whose text comes as it is written."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from .files import BLOCK_BYTES, DELIMITERS, Shard, magic_suffix

SNIFF_BYTES, MOST_SNIFFED = 1 << 20, 1 << 24  # the latter where two rows are longer
NUMBERED = re.compile(r"^\[\d+\]")  # before each name in a header of bcftools
BYTE_ORDER_MARKS = {
    "UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),  # begins as UTF-16 does, so it comes first
    "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
}


@dataclass(frozen=True)
class Header:
    """Column names, '' for a column without one, and the lines that stand before the data."""

    names: list[str]
    lines: int


def sniff(shard: Shard) -> Header:
    """The header of a text table: after comment lines, or the last of them as in VCF."""
    comments, rows, ends = _first_rows(shard)
    delimiter = DELIMITERS[shard.format.kind]
    if comments and _is_header(comments[-1], rows, delimiter):
        names = next(csv.reader([comments[-1][1:]], delimiter=delimiter))
        names = [NUMBERED.sub("", name.strip()) for name in names]
        skip, data = len(comments), rows[:1]
    elif rows:
        names, skip, data = rows[0], ends[0], rows[1:]
    else:
        raise InputError(f"{shard.name}: the table is empty")
    named = len(names) - len(list(itertools.takewhile(lambda name: not name, reversed(names))))
    if named == 0:
        raise InputError(f"{shard.name}: the header names no column")
    trailing = data[0][named:] if data else []
    if any(trailing) or (data and len(data[0]) < named):
        raise InputError(
            f"{shard.name}: row 1 has {len(data[0])} values where the header names {named} columns"
        )
    return Header(names[:named] + trailing, skip)


def text_kind(start: bytes) -> str:
    """Whether a table that begins so is csv or tsv, by its first line that is no comment."""
    lines = (line for line in start.splitlines() if line and not line.startswith(b"#"))
    first = next(lines, b"")
    return "csv" if b"," in first and b"\t" not in first else "tsv"


def _first_rows(shard: Shard) -> tuple[list[str], list[list[str]], list[int]]:
    """The comment lines at the top, the first two rows after them, and the line each ends on."""
    for size in (SNIFF_BYTES, MOST_SNIFFED):
        raw = shard.open().read(size)
        if not shard.format.compression and (suffix := magic_suffix(raw)):
            raise InputError(f"{shard.name}: this is a {suffix} file by its content; name it so")
        for encoding, marks in BYTE_ORDER_MARKS.items():
            if raw.startswith(marks):
                raise InputError(f"{shard.name}: the text is {encoding}; convert it to UTF-8")
        whole = len(raw) < size
        if not whole:  # do not cut a character or a row in two
            raw = raw[: raw.rfind(b"\n") + 1]
        lines = list(io.StringIO(raw.decode("utf-8-sig"), newline=""))
        comments = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
        rows: list[list[str]] = []
        ends: list[int] = []
        csv.field_size_limit(1 << 30)
        reader = csv.reader(lines[len(comments) :], delimiter=DELIMITERS[shard.format.kind])
        for row in reader:
            if row and len(rows) < 2:
                rows.append([value.strip() for value in row])
                ends.append(len(comments) + reader.line_num)
        if whole or len(rows) == 2:
            return comments, rows, ends
    raise InputError(
        f"{shard.name}: the first {MOST_SNIFFED} bytes hold no two rows; a row may have "
        f"{BLOCK_BYTES}, and a quote must be closed"
    )


def _is_header(comment: str, rows: list[list[str]], delimiter: str) -> bool:
    """Whether a comment line names the columns of the rows below it.

    As VCF's `#CHROM` line does, and that of bcftools: `# [1]CHROM`.
    """
    if comment.startswith("##") or not rows:
        return False
    if comment[1:2].isspace() and not NUMBERED.match(comment[1:].strip()):
        return False
    width = len(next(csv.reader([comment[1:]], delimiter=delimiter)))
    return width == len(rows[0]) and (width > 1 or _is_number(rows[0][0]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@functools.cache
def _start_threads() -> None:
    """Start the threads of Arrow's reader: one that finds no memory later would wait for ever."""
    import pyarrow.csv

    pa.set_io_thread_count(2)
    options = pyarrow.csv.ReadOptions(use_threads=False)
    for _ in range(3):
        list(pyarrow.csv.open_csv(pa.py_buffer(b"a\n1\n"), read_options=options))


def text_columns(shard: Shard) -> list[str]:
    """The names of a text table's columns."""
    return [name for name in sniff(shard).names if name]


def text_batches(shard: Shard, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv

    _start_threads()
    header = sniff(shard)
    names = [name or f"\0{i}" for i, name in enumerate(header.names, 1)]
    unnamed = [name for name in names if name.startswith("\0")]

    odd_rows = []

    def bad_row(row: Any) -> str:
        odd_rows.append(row)
        return "error"

    options = {
        # one thread here: it is what makes row numbers known, and parsing is not the bottleneck
        "read_options": pyarrow.csv.ReadOptions(
            use_threads=False,
            block_size=BLOCK_BYTES,
            column_names=names,
            skip_rows=header.lines,
        ),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=DELIMITERS[shard.format.kind],
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=bad_row,
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=columns + unnamed,
            strings_can_be_null=False,
        ),
    }
    first_row = 0
    try:
        batches = pyarrow.csv.open_csv(shard.open(), **options)
        for batch in _without_blank_end(batches) if len(names) == 1 else batches:
            for name in unnamed:
                _check_empty(shard, name[1:], batch[name], first_row)
            first_row += batch.num_rows
            batch = batch.select(columns)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
    except pa.ArrowInvalid as error:
        if not odd_rows:
            raise
        row = odd_rows[0]
        raise InputError(
            f"{shard.name}: row {row.number - header.lines} has {row.actual_columns} values "
            f"where the header names {len(names) - len(unnamed)} columns"
        ) from error


def _without_blank_end(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a one-column table, in which a blank line is a missing value but at the end."""
    blank: list[pa.RecordBatch] = []
    for batch in batches:
        filled = np.flatnonzero(np.asarray(pc.not_equal(batch.column(0), "")))
        end = int(filled[-1]) + 1 if len(filled) else 0
        if end:
            yield from blank
            yield batch.slice(0, end)
            blank = []
        blank.append(batch.slice(end))


def _check_empty(shard: Shard, column: str, values: pa.Array, first_row: int) -> None:
    """A column without a name is fine where it comes of trailing delimiters."""
    filled = pc.not_equal(pc.utf8_trim_whitespace(values), "")
    if pc.any(filled).as_py():
        raise InputError(
            f"{shard.name}: column {column} has a value in row "
            f"{first_row + pc.index(filled, True).as_py() + 1} but no name in the header; name it "
            "there, or write the table without its index"
        )
