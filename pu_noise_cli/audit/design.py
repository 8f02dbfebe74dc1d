"""AUDIT: rows to verify by hand, drawn within strata of the posterior, and read with verdicts."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..numerics import FloatArray, IntArray
from ..posterior.calibration import Calibration
from ..score.scores import score_chunks
from ..score.sketch import Sketch
from ..score.training import priorities
from ..tables.reading import Batch, Table, open_table
from ..tables.rows import NEGATIVE, SEPARATOR, Chunk, Rows, as_text, shown
from .verdicts import SETS, Audit, Verdict, Verified, allot, expected_width, stratify

SALT = 7_919  # lest the rows are those that a model was trained on, which --seed draws as well
SAMPLE_SIZES = (50, 100, 200)  # verdicts for which the width of the interval is told beforehand
YES, NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
SUM_TOLERANCE = 0.01  # of a sum of weights, which may have been rounded
MOST_STRATA = 1000  # far more than there are: a file may have been edited
COLUMNS = ("set", "score", "posterior", "stratum", "weight", "verdict", "row")  # after the ids


# ---- Drawing


def check_no_verdicts(name: str) -> None:
    """Stop where an output would replace verdicts, which somebody has found by hand."""
    if not os.path.isfile(name):
        return
    try:
        table = open_table(name)
        chunks = map(_as_chunk, table.batches(["verdict"])) if "verdict" in table.columns else ()
        given = any(any(map(str.strip, as_text(c, "verdict").to_pylist())) for c in chunks)
    except (InputError, UsageError):  # no table, so no audit
        return
    if given:
        raise UsageError(
            f"{name}: holds verdicts, which would be lost; write to another file, and give this "
            "one as --verdicts to draw other rows"
        )


@dataclass(frozen=True, eq=False)
class Design:
    """The strata of one of the two samples, in order of the score."""

    posterior: FloatArray  # (cells,): the probability that a row of this sample is positive
    counts: IntArray  # (cells,): its rows
    stratum: IntArray  # (cells,)
    due: FloatArray  # (strata,): the part of the rows to verify

    @classmethod
    def of(cls, posterior: FloatArray, counts: IntArray) -> Design:
        """The strata of rows, of which there are so many in each cell; both of shape (cells,)."""
        return cls(posterior, counts, *stratify(posterior, counts))

    @property
    def rows(self) -> IntArray:
        """How many rows each stratum has, shape (strata,)."""
        return np.bincount(self.stratum, self.counts, len(self.due)).astype(np.int64)

    def expected_widths(self) -> list[float]:
        """How wide the interval will be after each of SAMPLE_SIZES, by the posteriors."""
        share = np.bincount(self.stratum, self.counts * self.posterior, len(self.due)) / self.rows
        return [expected_width(n, self.due, self.rows, share.clip(0, 1)) for n in SAMPLE_SIZES]


def designs(calibration: Calibration) -> tuple[Design, Design]:
    """The strata of the unlabeled and of the labeled rows."""
    sketch = calibration.sketch
    return (
        Design.of(calibration.posterior, sketch.unlabeled),
        Design.of(calibration.posterior_labeled, sketch.labeled),
    )


class DrawnRow(NamedTuple):
    """A row that was drawn, as its place in the random order says."""

    priority: int
    row: int  # in SCORES, from 0
    id: tuple[str, ...]
    score: float


class Drawing:
    """The rows of lowest priority in each stratum, gathered in one pass.

    Strata of both samples are numbered through, those of the unlabeled rows first.
    """

    def __init__(self, sizes: IntArray, earlier: IntArray, seed: int) -> None:
        self.sizes, self.earlier, self.seed = sizes, earlier, seed
        self.kept: list[list[DrawnRow]] = [[] for _ in sizes]
        # from which priority on a row is not among the lowest, shape (strata,)
        self.limit = np.where(sizes > 0, np.iinfo(np.uint64).max, 0).astype(np.uint64)

    def add(self, rows: Rows, chunk: Chunk, scores: FloatArray, strata: IntArray) -> None:
        """Offer the rows of a chunk with their scores and strata, both of shape (n,)."""
        priority = priorities(self.seed + SALT, 0, chunk.first_row, len(scores))
        row = np.arange(chunk.first_row, chunk.first_row + len(scores))
        drawable = ~np.isnan(scores) & (chunk.sets != NEGATIVE)
        wanted = (priority < self.limit[strata]) & drawable
        chosen = np.flatnonzero(wanted & ~np.isin(row, self.earlier))
        if len(chosen) == 0:
            return
        ids = rows.id_parts(chunk)
        for stratum in np.unique(strata[chosen]):
            mine = chosen[strata[chosen] == stratum]
            size = int(self.sizes[stratum])
            mine = mine[np.argsort(priority[mine])][:size]
            parts = [part.take(pa.array(mine)).to_pylist() for part in ids]
            new = [
                DrawnRow(int(priority[i]), int(row[i]), tuple(name), float(scores[i]))
                for i, *name in zip(mine, *parts, strict=True)
            ]
            self.kept[stratum] = sorted([*self.kept[stratum], *new])[:size]
            if len(self.kept[stratum]) == size:
                self.limit[stratum] = self.kept[stratum][-1].priority


def draw_rows(
    rows: Rows,
    sketch: Sketch,
    by_set: tuple[Design, Design],
    wanted: tuple[int, int],
    taken: tuple[IntArray, IntArray],
    earlier: IntArray,
    seed: int,
) -> pa.Table:
    """The rows of AUDIT without verdicts, in the order of SCORES.

    So many of each set as are wanted, none of them at one of the `earlier` places of SCORES, of
    which each stratum has lost as many as are `taken`.
    """
    for n, design, name in zip(wanted, by_set, ("--rows", "--labeled-rows"), strict=True):
        if 0 < n < len(design.due):
            raise UsageError(f"{name} {n}: there are {len(design.due)} strata, each needs a row")
    sizes = [
        allot(n, design.due, design.rows - gone)
        for n, design, gone in zip(wanted, by_set, taken, strict=True)
    ]
    drawing = Drawing(np.concatenate(sizes), earlier, seed)
    offset = len(by_set[0].due)
    for chunk, scores in score_chunks(rows, rows.id_columns):
        cells = sketch.cell_index(scores)
        ours, theirs = by_set[1].stratum[cells] + offset, by_set[0].stratum[cells]
        drawing.add(rows, chunk, scores, np.where(chunk.labeled, ours, theirs))
    found: list[tuple[Any, ...]] = []
    for number, kept in enumerate(drawing.kept):
        labeled = number >= offset
        design, stratum = by_set[labeled], number - offset * labeled
        cells = sketch.cell_index(np.array([row.score for row in kept], np.float64))
        for row, cell in zip(kept, cells, strict=True):
            weight = float(design.rows[stratum] / len(kept))
            values = (*row.id, SETS[labeled], row.score, float(design.posterior[cell]))
            found.append((*values, stratum + 1, weight, "", row.row + 1))
    if not found:
        raise InputError(f"{rows.tables[0].name}: all rows were drawn before")
    found.sort(key=lambda row: row[-1])
    names = (*rows.id_names, *COLUMNS)
    return pa.table(dict(zip(names, map(pa.array, zip(*found, strict=True)), strict=True)))


def earlier_rows(
    names: Sequence[str], rows: Rows, sketch: Sketch, by_set: tuple[Design, Design]
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """The places in SCORES of rows that were drawn before, and how many of each stratum."""
    found = read_audits(names, rows, sketch) if names else None
    taken = []
    for labeled, design in enumerate(by_set):
        counts = found.counts[labeled] if found else None
        if counts is not None and not _same_strata(counts.rows, design.rows):
            raise InputError(
                f"{names[0]}: was drawn with another prior; give the --prior that it was drawn with"
            )
        mine = [v.stratum for v in found.drawn if v.labeled == bool(labeled)] if found else []
        taken.append(np.bincount(np.array(mine, np.int64), minlength=len(design.due)))
    places = found.rows if found else np.empty(0, np.int64)
    return places, (taken[0], taken[1])


def kept_columns(tables: Sequence[Table], columns: Sequence[str], rows: IntArray) -> pa.Table:
    """Columns of tables, as text, at rows, shape (n,) and in order, that count through them all."""
    found, first = [], 0
    for table in tables:
        for column in columns:
            table.require(column, "--keep-columns")
        for batch, file, file_row in table.batches(columns):
            mine = rows[(rows >= first) & (rows < first + batch.num_rows)] - first
            part = batch.take(pa.array(mine))
            chunk = Chunk(part, np.zeros(len(mine), np.int8), 0, first, file, file_row)
            found.append(pa.table({column: as_text(chunk, column) for column in columns}))
            first += batch.num_rows
    kept = pa.concat_tables(found)
    if kept.num_rows < len(rows):
        names = " and ".join(table.name for table in tables)
        raise InputError(f"{names}: has {first} rows, fewer than the scores")
    return kept


# ---- Reading


def read_audits(names: Sequence[str], rows: Rows, sketch: Sketch) -> Audit:
    """The audits of some scores, added up; each row must be there, and counts once."""
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("an audit is named twice")
    parts = [_read(name, rows.id_names) for name in names]
    every = [verdict for part in parts for verdict in part]
    if not every:
        raise InputError(f"{names[0]}: holds no rows")
    counted: dict[int, Verdict] = {}
    for row, verdict in zip(_places(every, rows), every, strict=True):
        other = counted.setdefault(row, verdict)
        if other.positive is None:
            counted[row] = verdict
        elif verdict.positive not in (None, other.positive):
            raise InputError(f"{verdict.place}: contradicts the verdict of {other.place}")
    places = {verdict.place for verdict in counted.values()}
    sizes = (sketch.n_unlabeled, sketch.n_labeled)
    found = [_counts(names, parts, places, labeled, sizes[labeled]) for labeled in (False, True)]
    row_numbers = np.array(list(counted), np.int64)
    return Audit(tuple(counted.values()), row_numbers, (found[0], found[1]))


def _read(name: str, ids: Sequence[str]) -> list[Verdict]:
    """The rows of an audit, in whose columns `ids` their ids are."""
    table = open_table(name)
    for column in (*ids, *COLUMNS[:-1]):
        table.require(column, "an audit")
    wanted = [column for column in (*ids, *COLUMNS) if column in table.columns]
    found: list[Verdict] = []
    for chunk in map(_as_chunk, table.batches(wanted)):
        columns = [as_text(chunk, column).to_pylist() for column in wanted]
        for i, values in enumerate(zip(*columns, strict=True)):
            row = dict(zip(wanted, map(str.strip, values), strict=True))
            row["id"] = SEPARATOR.join(values[: len(ids)]).strip()
            found.append(_verdict(chunk, i, row))
    return found


def _as_chunk(read: Batch) -> Chunk:
    batch, file, first = read
    return Chunk(batch, np.zeros(batch.num_rows, np.int8), 0, first, file, first)


def _verdict(chunk: Chunk, i: int, row: dict[str, str]) -> Verdict:
    def number(column: str, least: float, most: float = 1e300) -> float:
        try:
            value = float(row[column])
        except ValueError:
            value = np.nan
        if not least <= value <= most:
            raise chunk.error(column, f"has {shown(row[column])}", i)
        return value

    if row["set"] not in SETS:
        remedy = f"; rows to verify are {' or '.join(SETS)}"
        raise chunk.error("set", f"has {shown(row['set'])}", i, remedy)
    word = row["verdict"].lower()
    if word not in (*YES, *NO, ""):
        remedy = "; a verdict is yes/no or 1/0, and stays empty where unsure"
        raise chunk.error("verdict", f"has {shown(row['verdict'])}", i, remedy)
    return Verdict(
        f"{chunk.file}: row {chunk.first_file_row + i + 1}",
        int(number("row", 1)) - 1 if row.get("row") else None,
        row["id"],
        row["set"] == SETS[1],
        int(number("stratum", 1, MOST_STRATA)) - 1,
        number("weight", 1 - SUM_TOLERANCE),
        number("posterior", 0, 1),
        None if word == "" else word in YES,
    )


def _places(verdicts: Sequence[Verdict], rows: Rows) -> list[int]:
    """The place of each row in SCORES: by its id, and where that is repeated by its number."""
    wanted = pa.array(sorted({verdict.id for verdict in verdicts}), pa.string())
    found: dict[tuple[str, bool], list[int]] = {}
    for chunk, _ in score_chunks(rows, rows.id_columns):
        ids = pc.utf8_trim_whitespace(rows.ids(chunk))
        drawable = chunk.sets != NEGATIVE
        for i in np.flatnonzero(np.asarray(pc.is_in(ids, wanted)) & drawable):
            key = ids[int(i)].as_py(), bool(chunk.labeled[i])
            found.setdefault(key, []).append(chunk.first_row + int(i))
    return [_place(verdict, found, rows.tables[0].name) for verdict in verdicts]


def _place(verdict: Verdict, found: dict[tuple[str, bool], list[int]], name: str) -> int:
    places = found.get((verdict.id, verdict.labeled), [])
    if len(places) == 1:
        return places[0]
    if verdict.row in places:
        return verdict.row
    what = f"{SETS[verdict.labeled]} row with the id {shown(verdict.id)}"
    if not places:
        raise InputError(f"{verdict.place}: {name} has no {what}")
    raise InputError(
        f"{verdict.place}: {name} has more than one {what}; "
        "the column 'row' must say which, as 'punoise audit' wrote it"
    )


def _counts(
    names: Sequence[str],
    parts: Sequence[Sequence[Verdict]],
    places: Container[str],
    labeled: bool,
    size: int,
) -> Verified | None:
    """The counts by stratum of one sample over all audits; none where no row of it was drawn.

    Verdicts count at the given places, weights at all of them.
    """
    strata = max((v.stratum + 1 for part in parts for v in part if v.labeled == labeled), default=0)
    if strata == 0:
        return None
    rows, checked, positive = np.zeros((3, strata))
    for name, part in zip(names, parts, strict=True):
        mine = [verdict for verdict in part if verdict.labeled == labeled]
        stratum = np.array([verdict.stratum for verdict in mine], np.int64)
        total = np.bincount(stratum, [verdict.weight for verdict in mine], strata)
        both = (rows > 0) & (total > 0)
        if not _same_strata(rows[both], total[both]):
            raise InputError(
                f"{name}: has other strata than {names[0]}; audits that are to be added up must be "
                "drawn with the same --scores and --prior, and keep all their rows"
            )
        rows = np.maximum(rows, total)
        verdicts = [v.positive if v.place in places else None for v in mine]
        checked += np.bincount(stratum, [v is not None for v in verdicts], strata)
        positive += np.bincount(stratum, [v is True for v in verdicts], strata)
    if not np.isclose(rows.sum(), size, rtol=SUM_TOLERANCE):
        raise InputError(
            f"{', '.join(names)}: the weights of the {SETS[labeled]} rows add up to "
            f"{rows.sum():.0f}, not to the {size} rows of the scores; leave all rows in it, also "
            "those without a verdict, and give the scores that they were drawn from"
        )
    return Verified(*(np.rint(counts).astype(np.int64) for counts in (rows, checked, positive)))


def _same_strata(rows: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether two lists of the rows in each stratum are the same but for rounding."""
    return len(rows) == len(others) and np.allclose(rows, others, rtol=SUM_TOLERANCE, atol=1)
