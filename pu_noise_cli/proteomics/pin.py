"""Percolator's .pin files: what their columns are, and their rows in batches.

They are tab-separated, without quotes. The last column, Proteins, is ragged: it holds the rest of
its line. A second line may give initial directions, which are not needed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..tables.files import Shard, magic_suffix
from ..tables.reading import Reader, Table, register_reader

BLOCK_BYTES = 1 << 19  # read at a time: the positions of its tabs take several times as much
MAX_LINE_BYTES = 1 << 26
LABEL, DIRECTIONS = "label", "defaultdirection"
SEPARATOR = b"\x1f"  # between proteins while a line is parsed: a character that no file has
LABELS = {"1": "unlabeled", "-1": "labeled"}  # targets and decoys
PIN_COLUMNS = ("specid", LABEL, "scannr", "peptide", "proteins")
KIND = re.compile(r"(?i)(^|[._/-])(targets?|decoys?)(?=[._/-]|$)")  # in the name of a file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class PinColumns:
    """The columns of a .pin file that are not features, as spelled in it."""

    id: str
    label: str
    scan: str
    peptide: str
    proteins: str
    spectrum: tuple[str, ...]  # identify a spectrum: the scan and, if there, mass and file
    others: tuple[str, ...]  # further columns that are not features

    @classmethod
    def from_table(cls, table: Table) -> PinColumns:
        """The columns of a table by name, ignoring case."""
        known = {column.lower(): column for column in table.columns}

        def find(wanted: str) -> str:
            if wanted.lower() not in known:
                raise InputError(f"{table.name}: no column {wanted}, which a .pin file needs")
            return known[wanted.lower()]

        spectrum = [known[c] for c in ("scannr", "expmass", "filename") if c in known]
        mass = [known["calcmass"]] if "calcmass" in known else []
        peptide, proteins = find("Peptide"), find("Proteins")
        return cls(
            id=find("SpecId"),
            label=find("Label"),
            scan=find("ScanNr"),
            peptide=peptide,
            proteins=proteins,
            spectrum=tuple(spectrum),
            others=(*spectrum[1:], *mass, peptide, proteins),
        )


def is_pin(table: Table) -> bool:
    """Whether a table is a .pin file, or has the columns of one."""
    named = {column.lower() for column in table.columns}
    return table.shards[0].format.kind == "pin" or named.issuperset(PIN_COLUMNS)


def run_name(file: str) -> str:
    """The name of a run: of files for its targets and its decoys, what both have in common."""
    return KIND.sub("", file)


def _columns(shard: Shard) -> list[str]:
    return _header(shard).names


def _batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None
) -> Iterator[pa.RecordBatch]:
    """Read columns, so many rows at a time.

    The coded column is the labels, which come in the words of other tables.
    """
    header = _header(shard)
    label = coded if coded is not None and coded.lower() == LABEL else None
    first_row = 0
    for block in _blocks(shard, header.lines):
        table = _parse(shard, header, block, columns, first_row)
        for batch in table.to_batches(rows):
            arrays = [
                _labels(shard, batch[name], first_row) if name == label else batch[name]
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)
            first_row += batch.num_rows


@dataclass(frozen=True)
class _Header:
    names: list[str]
    lines: int  # before the rows


def _header(shard: Shard) -> _Header:
    start = b""
    with shard.open() as stream:
        while start.count(b"\n") < 2 and len(start) < MAX_LINE_BYTES:
            if not (more := stream.read(BLOCK_BYTES)):
                break
            start += more
    if not shard.format.compression and (suffix := magic_suffix(start)):
        raise InputError(f"{shard.name}: this is a {suffix} file by its content; name it so")
    lines = start.removeprefix(BYTE_ORDER_MARK).split(b"\n", 2)
    names = [name.strip() for name in lines[0].decode("utf-8").split("\t")]
    if len(names) < 2 or not all(names):
        raise InputError(f"{shard.name}: the first line of a .pin file names its columns")
    second = lines[1].split(b"\t", 1)[0] if len(lines) > 1 else b""
    return _Header(names, 2 if second.decode("utf-8", "replace").lower() == DIRECTIONS else 1)


def _blocks(shard: Shard, skip: int) -> Iterator[bytes]:
    """The bytes of a file after its first lines, in blocks of whole lines."""
    rest = b""
    with shard.open() as stream:
        while more := stream.read(BLOCK_BYTES):
            rest += more
            while skip and (end := rest.find(b"\n") + 1):
                rest, skip = rest[end:], skip - 1
            end = 0 if skip else rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
            elif len(rest) > MAX_LINE_BYTES:
                raise InputError(f"{shard.name}: a line of over {MAX_LINE_BYTES} bytes")
            rest = rest[end:]
    if not skip and rest.strip():
        yield rest + b"\n"


def _parse(
    shard: Shard, header: _Header, block: bytes, columns: list[str], first_row: int
) -> pa.Table:
    """The rows of a block of whole lines."""
    import pyarrow.csv

    try:
        table = pyarrow.csv.read_csv(
            pa.py_buffer(_join_last_column(block, len(header.names))),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=header.names
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header.names, pa.string()),
                include_columns=columns,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        _check_rows(shard, header, block, first_row)
        raise
    if (last := header.names[-1]) in columns:
        proteins = pc.replace_substring(table[last], SEPARATOR.decode(), "\t")
        table = table.set_column(columns.index(last), last, proteins)
    return table


def _check_rows(shard: Shard, header: _Header, block: bytes, first_row: int) -> None:
    """Raise an input error that names the first row that is too short or not UTF-8."""
    lines = [line for line in block.split(b"\n") if line.strip(b"\r")]
    for row, line in enumerate(lines, first_row + 1):
        try:
            values = line.decode().count("\t") + 1
        except UnicodeDecodeError as error:
            remedy = "convert it, e.g. with iconv -f LATIN1 -t UTF-8"
            raise InputError(f"{shard.name}: row {row} is not UTF-8; {remedy}") from error
        if values < len(header.names):
            raise InputError(
                f"{shard.name}: row {row} has {values} values "
                f"where the header has {len(header.names)} columns"
            )


def _join_last_column(block: bytes, columns: int) -> bytes:
    """The lines with SEPARATOR instead of the tabs within their last column."""
    text = np.frombuffer(block, np.uint8)
    tabs = np.flatnonzero(text == ord("\t"))
    line = np.searchsorted(np.flatnonzero(text == ord("\n")), tabs)
    first = np.searchsorted(line, line)  # of the tabs of the same line
    extra = tabs[np.arange(len(tabs)) - first >= columns - 1]
    if len(extra) == 0:
        return block
    text = text.copy()
    text[extra] = ord(SEPARATOR)
    return text.tobytes()


def _labels(shard: Shard, values: pa.Array, first_row: int) -> pa.Array:
    coded = pc.utf8_trim_whitespace(values).dictionary_encode()
    words = coded.dictionary.to_pylist()
    for word in words:
        if word not in LABELS:
            row = first_row + pc.index(coded.indices, words.index(word)).as_py() + 1
            raise InputError(
                f"{shard.name}: column Label has {word[:40]!r} in row {row}; in a .pin file it is "
                "1 for a target and -1 for a decoy"
            )
    renamed = pa.array([LABELS[word] for word in words], pa.string())
    return pa.DictionaryArray.from_arrays(coded.indices, renamed)


register_reader("pin", Reader(_columns, _batches))
