"""Percolator's .pin files: what their columns are, and their rows in batches.

Tab-separated, without quotes. The last column, Proteins, is ragged: it holds all that is left of a
line. A second line may give directions for a start, which are not needed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..tables.files import Shard, magic_suffix, split_compression
from ..tables.reading import Reader, register_reader

BLOCK_BYTES = 1 << 19  # read at a time: the places of its tabs take several times as much
MOST_BYTES = 1 << 26  # of a line
LABEL, DIRECTIONS = "label", "defaultdirection"
JOINT = b"\x1f"  # between proteins while the line is parsed: a character that no file has
LABELS = {"1": "unlabeled", "-1": "labeled"}  # targets and decoys
MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class PinRoles:
    """The columns of a .pin file that are no features, by the names they have in it."""

    id: str
    label: str
    scan: str
    peptide: str
    proteins: str
    spectrum: tuple[str, ...]  # which tell a spectrum: the scan, and the mass and file if there
    others: tuple[str, ...]  # no features either

    @classmethod
    def of(cls, name: str, columns: tuple[str, ...]) -> PinRoles:
        """The columns of a file as they are; upper and lower case do not matter."""
        known = {column.lower(): column for column in columns}

        def find(wanted: str) -> str:
            if wanted.lower() not in known:
                raise InputError(f"{name}: a .pin file has a column {wanted}, and this has none")
            return known[wanted.lower()]

        spectrum = [known[c] for c in ("scannr", "expmass", "filename") if c in known]
        mass = [known[c] for c in ("calcmass",) if c in known]
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


def is_pin_name(name: str) -> bool:
    """Whether a file name or glob ends in .pin, ignoring compression."""
    return split_compression(name.lower())[0].endswith(".pin")


def _columns(shard: Shard) -> list[str]:
    return _header(shard).names


def _batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None
) -> Iterator[pa.RecordBatch]:
    """The named columns, so many rows at a time, as they are written.

    A coded column is that of the labels, which come in the words of other tables.
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
    lines: int  # that stand before the rows


def _header(shard: Shard) -> _Header:
    start = b""
    with shard.open() as stream:
        while start.count(b"\n") < 2 and len(start) < MOST_BYTES:
            if not (more := stream.read(BLOCK_BYTES)):
                break
            start += more
    if not shard.format.compression and (suffix := magic_suffix(start)):
        raise InputError(f"{shard.name}: this is a {suffix} file by its content; name it so")
    lines = start.removeprefix(MARK).split(b"\n", 2)
    names = [name.strip() for name in lines[0].decode("utf-8").split("\t")]
    if len(names) < 2 or not all(names):
        raise InputError(f"{shard.name}: the first line of a .pin file names its columns")
    second = lines[1].split(b"\t", 1)[0] if len(lines) > 1 else b""
    return _Header(names, 2 if second.decode("utf-8", "replace").lower() == DIRECTIONS else 1)


def _blocks(shard: Shard, skip: int) -> Iterator[bytes]:
    """The bytes of a file after its first lines, cut at the ends of lines."""
    rest = b""
    with shard.open() as stream:
        while more := stream.read(BLOCK_BYTES):
            rest += more
            while skip and (end := rest.find(b"\n") + 1):
                rest, skip = rest[end:], skip - 1
            end = 0 if skip else rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
            elif len(rest) > MOST_BYTES:
                raise InputError(f"{shard.name}: a line of over {MOST_BYTES} bytes")
            rest = rest[end:]
    if not skip and rest.strip():
        yield rest + b"\n"


def _parse(
    shard: Shard, header: _Header, block: bytes, columns: list[str], first_row: int
) -> pa.Table:
    """The rows of a block of whole lines."""
    import pyarrow.csv

    odd = []

    def bad_row(row: pyarrow.csv.InvalidRow) -> str:
        odd.append(row)
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            pa.py_buffer(_joined_ends(block, len(header.names))),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=header.names
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter="\t", quote_char=False, invalid_row_handler=bad_row
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header.names, pa.string()),
                include_columns=columns,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if not odd:
            _check_utf8(shard, block, first_row)
            raise
        raise InputError(
            f"{shard.name}: row {first_row + odd[0].number} has {odd[0].actual_columns} values "
            f"where the header names {len(header.names)} columns"
        ) from error
    if (last := header.names[-1]) in columns:
        proteins = pc.replace_substring(table[last], JOINT.decode(), "\t")
        table = table.set_column(columns.index(last), last, proteins)
    return table


def _check_utf8(shard: Shard, block: bytes, first_row: int) -> None:
    """Stop at text that is not UTF-8, of which the reader knows only the place in the block."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        row = first_row + block.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{shard.name}: row {row} is not UTF-8; convert it, e.g. with iconv -f LATIN1 -t UTF-8"
        ) from error


def _joined_ends(block: bytes, columns: int) -> bytes:
    """Lines whose last column holds all that is left of them, parted by JOINT instead of tabs."""
    text = np.frombuffer(block, np.uint8)
    tabs = np.flatnonzero(text == ord("\t"))
    line = np.searchsorted(np.flatnonzero(text == ord("\n")), tabs)
    first = np.searchsorted(line, line)  # the first tab of the line that each is in
    extra = tabs[np.arange(len(tabs)) - first >= columns - 1]
    if len(extra) == 0:
        return block
    text = text.copy()
    text[extra] = ord(JOINT)
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
