"""PEPs and q-values of matches, peptides and proteins: their tables, and how `run` finds them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import BoolArray, FloatArray
from ..pipeline import DOMAINS, Inputs, RunSettings
from ..posterior.calibration import Calibration, calibrate
from ..posterior.table import Columns, WritePosteriors
from ..prior.base import ESTIMATORS, Settings, Shares
from ..prior.document import Prior, shares_for
from ..prior.estimation import estimate_prior
from ..score.scores import Tally
from ..score.sketch import Sketch
from ..tables.reading import Table
from ..tables.rows import Chunk, Rows, as_text
from ..tables.writing import write_atomically
from .matches import (
    COUNTING,
    PSMS,
    REVERSED,
    ROLLED_UP,
    SPECTRUM,
    Confidence,
    Matches,
    MatchTally,
    check_decoys,
    check_method,
    interpolated_posterior,
    match_keys,
    without_consequences,
)
from .pin import PinRoles, is_pin, pin_roles, pin_sets, run_name
from .report import search_page

PERCOLATOR_COLUMNS = ("PSMId", "score", "q-value", "posterior_error_prob", "peptide", "proteinIds")
RANKS = 200_000  # lines that are put in order at once, or more where ranges would be too many
MAX_RANGES = 32
MATCH_COLUMNS = ("pep", "q_value")  # of POSTERIOR; null if a match is not the best of its spectrum


def calibrate_matches(prior: Prior, sketch: Sketch, shares: Shares) -> Calibration:
    """Calibrate the scores of the best matches: smoothly if decoys were counted.

    The number of decoys near a score says how many targets are wrong there, whatever α is: PEPs
    are not scaled, and average to α only as nearly as a smooth curve can.
    """
    if prior.method != COUNTING:
        return calibrate(sketch, shares)
    smooth = calibrate(sketch, replace(shares, draws=(), from_these_rows=False), smooth=True)
    said = {"posterior-mean-off", *(notice.code for notice in prior.notices)}
    notices = tuple(n for n in smooth.notices if n.code not in said and REVERSED not in said)
    return replace(smooth, notices=notices)


def roll_up(
    matches: Matches, calibration: Calibration, prior: Prior, settings: Settings | None = None
) -> dict[str, Confidence]:
    """PEPs and q-values of the best matches, and of the peptides and proteins that have keys.

    Each level has a prior of its own, by the method of the prior of matches: the best of many wrong
    matches seldom has a low score.

    Parameters
    ----------
    settings
        Those of the prior; by default its beta and seed. Counting decoys needs no others.
    """
    settings = settings or Settings(beta=prior.beta, seed=prior.seed)
    method = prior.method if prior.method in ESTIMATORS else COUNTING  # alpha may be stated
    levels = {PSMS: Confidence.from_calibration(matches, calibration)}
    for level, key in ROLLED_UP.items():
        if key in matches.keys:
            levels[level] = count_decoys(level, matches.best(key), method, settings)
    return levels


def count_decoys(
    level: str, best: Matches, method: str = COUNTING, settings: Settings | None = None
) -> Confidence:
    """PEPs and q-values of the best matches of a level, by its own prior; beta is 1 by default."""
    if len(np.unique(best.labeled)) == 1:
        kind = "decoy" if best.labeled[0] else "target"
        remedy = "are the decoys in the table?"
        if level in ROLLED_UP:
            column = option(f"{ROLLED_UP[level]}_column")
            remedy = f"do decoys have {level} with names of their own in {column}?"
        raise InputError(
            f"{level}: the best match of each is a {kind}, so wrong ones cannot be counted; "
            f"{remedy}"
        )
    settings = settings or Settings(beta=1.0)
    own = estimate_prior(best.sketch(), method, settings, best_only=True)
    if own.alpha is None:  # too few to be told apart by their scores, but not to be counted
        own = estimate_prior(best.sketch(), COUNTING, settings, best_only=True)
    sketch, shares, _ = shares_for(own, best.sketch())
    return Confidence.from_calibration(best, calibrate_matches(own, sketch, shares))


# ---- Tables in Percolator's format


def write_levels(rows: Rows, levels: Mapping[str, Confidence], folder: str) -> None:
    """Write the tables of each level by falling score."""
    shown = shown_columns(rows)
    wanted = [*rows.id_columns, *(column for column in shown.values() if column is not None)]
    with level_tables(folder, levels, {name: ["file"] for name in levels}) as add:
        first_row = 0
        for chunk in rows.chunks(wanted):
            empty = pa.array([""] * chunk.batch.num_rows)
            columns = {
                name: empty if column is None else as_text(chunk, column)
                for name, column in shown.items()
            }
            columns["file"] = pc.if_else(True, os.path.basename(chunk.file), empty)
            add(first_row, pa.table({"id": rows.ids(chunk), **columns}))
            first_row += chunk.batch.num_rows


def shown_columns(rows: Rows) -> dict[str, str | None]:
    """The columns of peptides and of proteins, which a .pin file lists for each match."""
    columns = {name: parts[0] for name, parts in rows.keys}
    table = rows.tables[0]
    proteins = PinRoles.from_table(table).proteins if is_pin(table) else columns.get("protein")
    return {"peptide": columns.get("peptide"), "proteins": proteins}


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


# ---- Columns of POSTERIOR


@dataclass(frozen=True)
class WriteMatchPosteriors(WritePosteriors):
    """Writes POSTERIOR of matches that have scores."""

    best: Confidence  # of each spectrum, with PEPs and q-values

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, columns: Columns, best: Confidence, beside: Columns
    ) -> WritePosteriors:
        """The step that writes the columns of a calibration, and those of the best matches."""
        cells = len(calibration.sketch.edges)
        columns = {**columns, **{name: np.full(cells, np.nan) for name in MATCH_COLUMNS}}
        return cls(calibration.sketch, columns, calibration.label_sign, best, beside=beside)

    def is_candidate(self, chunk: Chunk, scores: FloatArray) -> BoolArray:
        """The targets that are the best match of their spectrum."""
        places, _ = self.best.locate(chunk.first_row, len(scores))
        best = np.zeros(len(scores), bool)
        best[places] = True
        return best & super().is_candidate(chunk, scores)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        """The named columns of the rows of a chunk."""
        arrays = dict(zip(names, super().arrays(names, chunk, scores), strict=True))
        places, indices = self.best.locate(chunk.first_row, len(scores))
        own = {"posterior": interpolated_posterior(self.best.calibration, scores)}
        for name, values in zip(MATCH_COLUMNS, (self.best.pep, self.best.q_value), strict=True):
            own[name] = np.full(len(scores), np.nan)
            own[name][places] = values[indices]
        own_arrays = {name: pa.array(values, from_pandas=True) for name, values in own.items()}
        return [own_arrays.get(name, array) for name, array in arrays.items()]


# ---- Matches on the path of other rows


class MatchDomain:
    """What matches add to the path: see Domain."""

    method = COUNTING
    tally: Callable[[Rows], Tally] = MatchTally
    write = staticmethod(write_levels)
    page = staticmethod(search_page)
    levels = staticmethod(roll_up)
    calibrate = staticmethod(calibrate_matches)
    check_best = staticmethod(check_decoys)

    def open(self, inputs: Inputs, tables: Sequence[Table]) -> tuple[Inputs, dict[str, Any]]:
        """The roles of columns in .pin files, and what matches compete for."""
        sets = pin_sets(tables) if inputs.table is not None else None
        inputs = replace(inputs, **pin_roles(inputs, tables))
        keys = match_keys(inputs, tables)
        return inputs, {"keys": keys, "set_names": sets, "file_key": run_name}

    def check(self, settings: RunSettings) -> None:
        """Stop where `run` cannot do with matches what is wanted."""
        if settings.sharded:
            raise UsageError(
                f"{option('shards')} cannot be used with matches: those of one spectrum may fall "
                "into different shards"
            )
        if settings.wanted.target_alpha is not None:
            raise UsageError(
                f"{option('target_alpha')} cannot be used with matches: PEPs are of these spectra"
            )

    def conclude(self, prior: Prior, method: str) -> Prior:
        """The prior with a warning if its method does not count decoys."""
        notices: tuple[Notice, ...] = (*prior.notices, *check_method(method))
        return without_consequences(msgspec.structs.replace(prior, notices=notices))

    def step(
        self,
        calibration: Calibration,
        columns: Columns,
        levels: Mapping[str, Confidence],
        beside: Columns,
    ) -> WritePosteriors:
        """The step that writes POSTERIOR, with PEPs and q-values."""
        return WriteMatchPosteriors.from_calibration(calibration, columns, levels[PSMS], beside)


DOMAINS[SPECTRUM] = MatchDomain()
