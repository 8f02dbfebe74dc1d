"""Tables of matches, peptides and proteins in Percolator's format."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..tables.writing import write_atomically
from .matches import Confidence

PERCOLATOR_COLUMNS = ("PSMId", "score", "q-value", "posterior_error_prob", "peptide", "proteinIds")
RANKS = 200_000  # lines that are put in order at once, or more where ranges would be too many
MAX_RANGES = 32


class LevelTable:
    """Two files of one level: targets and decoys, in Percolator's columns and further ones.

    Matches come in the order of their rows, and are written by falling score: lines wait in
    temporary files, each for a range of ranks, and are put in order one range at a time.
    """

    def __init__(self, level: Confidence, further: Sequence[str], folder: str) -> None:
        self._level, self._further = level, further
        decoy, n = level.matches.labeled, len(level.matches.row)
        order = np.lexsort((-level.matches.score, decoy))  # targets first
        self._rank = np.empty(n, np.uint32)
        self._rank[order] = np.arange(n)
        self._targets = n - int(decoy.sum())
        self._size = max(RANKS, -(-n // MAX_RANGES))
        self._ranges = [
            tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            for _ in range(0, n, self._size)
        ]

    def add(self, first_row: int, texts: pa.Table) -> None:
        """Add the matches among consecutive rows, of which all have texts.

        The further columns come before the proteins, which are separated by tabs.
        """
        level = self._level
        places, indices = level.locate(first_row, texts.num_rows)
        texts = texts.take(pa.array(places))
        ranks = self._rank[indices]
        numbers = (level.matches.score, level.q_value, level.pep)
        columns = [
            pa.array(ranks),
            texts["id"],
            *(pa.array(values[indices]) for values in numbers),
            texts["peptide"],
            *(texts[name] for name in self._further),
            texts["proteins"],
        ]
        lines = pc.binary_join_element_wise(*(pc.cast(c, pa.string()) for c in columns), "\t")
        in_range = ranks // self._size
        for number in np.unique(in_range):
            mine = lines.filter(pa.array(in_range == number)).to_pylist()
            self._ranges[number].writelines(f"{line}\n".encode() for line in mine)

    def write(self, targets: BinaryIO, decoys: BinaryIO) -> None:
        """Write all lines in order, and forget them."""
        for number, file in enumerate(self._ranges):
            file.seek(0)
            start = number * self._size
            lines = [b""] * self._size
            for line in file:
                rank, text = line.split(b"\t", 1)
                lines[int(rank) - start] = text
            border = max(self._targets - start, 0)
            targets.writelines(lines[:border])
            decoys.writelines(lines[border:])
            file.close()


@contextmanager
def level_tables(
    folder: str, levels: Mapping[str, Confidence], further: Mapping[str, Sequence[str]]
) -> Iterator[Callable[[int, pa.Table], None]]:
    """The files of all levels, LEVEL.tsv and decoys.LEVEL.tsv; yields what adds rows to them."""
    tables = {name: LevelTable(level, further[name], folder) for name, level in levels.items()}

    def add(first_row: int, texts: pa.Table) -> None:
        for table in tables.values():
            table.add(first_row, texts)

    yield add
    *columns, proteins = PERCOLATOR_COLUMNS
    for name, table in tables.items():
        header = "\t".join([*columns, *further[name], proteins]) + "\n"
        with (
            write_atomically(f"{folder}/{name}.tsv") as targets,
            write_atomically(f"{folder}/decoys.{name}.tsv") as decoys,
        ):
            for file in (targets, decoys):
                file.write(header.encode())
            table.write(targets, decoys)
