"""AUDIT: rows to verify by hand, drawn within strata of the posterior, and read with verdicts."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..numerics import FloatArray, IntArray
from ..posterior.calibration import Calibration
from ..prior.document import TERMINAL, Part, Prior, Wording, advice
from ..score.scores import score_chunks
from ..score.sketch import Sketch
from ..score.training import priorities
from ..tables.reading import Table, open_table
from ..tables.rows import SEPARATOR, Chunk, Rows, as_text, shown
from .verdicts import (
    PARTS,
    SETS,
    Audit,
    Verdict,
    Verified,
    allot,
    expected_top_widths,
    expected_width,
    stratify,
    top_of,
)

SALT = 7_919  # added to the seed, which also draws the rows that a model is trained on
ADVISED = 100  # verdicts, in the advice to verify some
SAMPLE_SIZES = (50, ADVISED, 200)  # verdicts for which the expected width of the interval is shown
TOP_SIZES = (10, 20, 50)  # the same at the top
YES, NO, UNSURE = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no"), ("", "?")
SUM_TOLERANCE = 0.01  # of a sum of weights, which may have been rounded
MAX_STRATA = 1000  # far more than there are: a file may have been edited
TOP = "top"  # in place of the number of a stratum
COLUMNS = ("set", "score", "posterior", "stratum", "weight", "verdict", "row")  # after the ids


# ---- Drawing


def check_no_verdicts(name: str) -> None:
    """Refuse to overwrite a file that has verdicts."""
    if not os.path.isfile(name):
        return
    try:
        table = open_table(name)
        chunks = _chunks(table, ["verdict"]) if "verdict" in table.columns else ()
        has_verdicts = any(any(map(str.strip, as_text(c, "verdict").to_pylist())) for c in chunks)
    except (InputError, UsageError):  # not a table, so not an audit
        return
    if has_verdicts:
        raise UsageError(
            f"{name}: contains verdicts, which would be lost; write to another file, and add "
            f"{option('verdicts')} {name} to draw other rows"
        )


class Design(NamedTuple):
    """The strata of one set of rows, in order of the score."""

    posterior: FloatArray  # (cells,): the probability that a row of this set is positive
    stratum: IntArray  # (cells,)
    due: FloatArray  # (strata,): the fraction of the rows to verify
    rows: IntArray  # (strata,): how many rows each has
    positive: FloatArray  # (strata,): the expected fraction of positives
    top: bool = False  # the first stratum is the top, and no row of the other is due

    def expected_widths(self, calibration: Calibration, prior: Prior) -> dict[int, float]:
        """How wide the interval will be after so many verdicts, by what is believed now."""
        if self.top:
            return expected_top_widths(calibration.sketch, prior, TOP_SIZES)
        return {n: expected_width(n, self.due, self.rows, self.positive) for n in SAMPLE_SIZES}


def designs(calibration: Calibration, top: bool = False) -> tuple[Design, Design]:
    """The strata of the unlabeled rows, or their top alone, and of the labeled rows."""
    sketch = calibration.sketch
    labeled = _design(calibration.posterior_labeled, sketch.labeled)
    if top:
        return _top_design(calibration), labeled
    return _design(calibration.posterior, sketch.unlabeled), labeled


def _top_design(calibration: Calibration) -> Design:
    """The top as the one stratum that rows are due from."""
    top, posterior = top_of(calibration.sketch), calibration.posterior
    counts = calibration.sketch.unlabeled * top
    rows = int(counts.sum())
    if rows == 0:
        raise InputError("no unlabeled row scores like the best labeled rows")
    positive = np.array([float(counts @ posterior) / rows, 0.0])
    due, sizes = np.array([1.0, 0.0]), np.array([rows, 0])
    return Design(posterior, (~top).astype(np.int64), due, sizes, positive.clip(0, 1), top=True)


def _design(posterior: FloatArray, counts: IntArray) -> Design:
    """Strata, from the posterior and the number of rows of each cell, shapes (cells,)."""
    stratum, due = stratify(posterior, counts)
    rows = np.bincount(stratum, counts, len(due)).astype(np.int64)
    positive = np.bincount(stratum, counts * posterior, len(due)) / rows
    return Design(posterior, stratum, due, rows, positive.clip(0, 1))


def next_steps(
    prior: Prior, calibration: Calibration, command: str, words: Wording = TERMINAL
) -> list[str]:
    """What would narrow the interval of α enough to be worth it; `command` draws an audit."""
    if prior.alpha_ci is None or prior.assumed is None:
        return []
    width = designs(calibration)[0].expected_widths(calibration, prior)[ADVISED]
    return advice(prior, ADVISED, width, command, words)


def audit_command(scores: str, prior: str) -> str:
    """The command that draws rows to verify."""
    files = {"scores": scores, "prior": prior, "out": "audit.tsv"}
    return " ".join(
        ["punoise audit", *(f"{option(name)} {shlex.quote(file)}" for name, file in files.items())]
    )


class DrawnRow(NamedTuple):
    """A drawn row; rows are drawn in order of their random priority."""

    priority: int
    row: int  # in SCORES, from 0
    id: tuple[str, ...]
    score: float


class Drawing:
    """The rows of lowest priority in each stratum, gathered in one pass.

    The strata of the unlabeled rows come first, then those of the labeled rows.
    """

    def __init__(self, sizes: IntArray, earlier: IntArray, seed: int) -> None:
        self.sizes, self.earlier, self.seed = sizes, earlier, seed
        self.drawn: list[list[DrawnRow]] = [[] for _ in sizes]
        # a row with this priority or a higher one is not among the lowest, shape (strata,)
        self.limit = np.where(sizes > 0, np.iinfo(np.uint64).max, 0).astype(np.uint64)

    def add(self, rows: Rows, chunk: Chunk, scores: FloatArray, strata: IntArray) -> None:
        """Offer the rows of a chunk with their scores and strata, both of shape (n,)."""
        priority = priorities(self.seed + SALT, 0, chunk.first_row, len(scores))
        row = np.arange(chunk.first_row, chunk.first_row + len(scores))
        drawable = (
            ~np.isnan(scores) & (chunk.labeled | chunk.unlabeled) & ~np.isin(row, self.earlier)
        )
        candidates = np.flatnonzero((priority < self.limit[strata]) & drawable)
        if len(candidates) == 0:
            return
        ids = rows.id_parts(chunk)
        for stratum in np.unique(strata[candidates]):
            size = int(self.sizes[stratum])
            places = candidates[strata[candidates] == stratum]
            places = places[np.argsort(priority[places])][:size]
            parts = [part.take(pa.array(places)).to_pylist() for part in ids]
            new = [
                DrawnRow(int(priority[i]), int(row[i]), tuple(name), float(scores[i]))
                for i, *name in zip(places, *parts, strict=True)
            ]
            self.drawn[stratum] = sorted([*self.drawn[stratum], *new])[:size]
            if len(self.drawn[stratum]) == size:
                self.limit[stratum] = self.drawn[stratum][-1].priority


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

    Parameters
    ----------
    by_set, wanted
        The strata and the number of rows to draw, of unlabeled and of labeled rows.
    taken, earlier
        How many rows of each stratum were drawn before, and their places in SCORES.
    """
    sizes = []
    for i, name in enumerate(("rows", "labeled_rows")):
        strata = np.count_nonzero(by_set[i].due)
        if 0 < wanted[i] < strata:
            raise UsageError(
                f"{option(name, wanted[i])} is too few: at least {strata}, one for each stratum"
            )
        sizes.append(allot(wanted[i], by_set[i].due, by_set[i].rows - taken[i]))
    drawing = Drawing(np.concatenate(sizes), earlier, seed)
    offset = len(by_set[0].due)
    for chunk, scores in score_chunks(rows, rows.id_columns):
        cells = sketch.cell_index(scores)
        unlabeled, labeled = by_set[0].stratum[cells], by_set[1].stratum[cells] + offset
        drawing.add(rows, chunk, scores, np.where(chunk.labeled, labeled, unlabeled))
    audit: list[tuple[Any, ...]] = []
    for number, drawn in enumerate(drawing.drawn):
        is_labeled = number >= offset
        design, stratum = by_set[is_labeled], number - offset * is_labeled
        cells = sketch.cell_index(np.array([row.score for row in drawn], np.float64))
        for row, posterior in zip(drawn, design.posterior[cells].tolist(), strict=True):
            weight = float(design.rows[stratum] / len(drawn))
            place = TOP if design.top else str(stratum + 1) if by_set[0].top else stratum + 1
            about = (SETS[is_labeled], row.score, posterior, place, weight, "", row.row + 1)
            audit.append((*row.id, *about))
    if not audit:
        raise InputError(f"{rows.tables[0].name}: all rows were drawn before")
    audit.sort(key=lambda row: row[-1])
    names = (*rows.id_names, *COLUMNS)
    return pa.table(dict(zip(names, map(pa.array, zip(*audit, strict=True)), strict=True)))


def earlier_rows(
    audits: Sequence[str | Table], rows: Rows, sketch: Sketch, by_set: tuple[Design, Design]
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """The places in SCORES of rows that were drawn before, and how many of each stratum.

    Rows at the top and rows of all strata are samples of their own, which may share rows.
    """
    unlabeled, labeled = (np.zeros(len(design.due), np.int64) for design in by_set)
    if not audits:
        return np.empty(0, np.int64), (unlabeled, labeled)
    audit = read_audits(audits, rows, sketch)
    for counts, design in zip(audit.counts, by_set, strict=False):
        if counts is not None and not design.top and not _same_strata(counts.rows, design.rows):
            raise InputError(
                f"{_name(audits[0])}: was drawn with another prior; use the {option('prior')} that "
                "it was drawn with"
            )
    same = [verdict.labeled or verdict.top == by_set[0].top for verdict in audit.drawn]
    for verdict in itertools.compress(audit.drawn, same):
        (labeled if verdict.labeled else unlabeled)[verdict.stratum] += 1
    return audit.rows[same], (unlabeled, labeled)


def kept_columns(
    tables: Sequence[Table], columns: Sequence[str], rows: IntArray, n_scores: int
) -> pa.Table:
    """Columns of tables as text, at increasing row numbers of shape (n,) over all tables.

    The tables must have as many rows as the scores: ignored rows have none.
    """
    parts, first = [], 0
    for table in tables:
        for column in columns:
            table.require(column, option("keep_columns"))
        for batch, file, file_row in table.batches(columns):
            places = rows[(rows >= first) & (rows < first + batch.num_rows)] - first
            part = batch.take(pa.array(places))
            chunk = Chunk(part, np.zeros(len(places), np.int8), 0, first, file, file_row)
            parts.append(pa.table({column: as_text(chunk, column) for column in columns}))
            first += batch.num_rows
    if first != n_scores:
        names = " and ".join(table.name for table in tables)
        raise InputError(
            f"{names}: has {first} rows, not as many as the scores; give the tables that were "
            f"scored, or carry the columns along with {option('keep_columns')} of 'run' or "
            "'transform'"
        )
    return pa.concat_tables(parts)


# ---- Reading


def read_audits(audits: Sequence[str | Table], rows: Rows, sketch: Sketch) -> Audit:
    """The audits of some scores together, files or tables; each row counts once."""
    names = [_name(audit) for audit in audits]
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("an audit is named twice")
    parts = [_read(audit, rows.id_names) for audit in audits]
    verdicts = [verdict for part in parts for verdict in part]
    if not verdicts:
        raise InputError(f"{names[0]}: has no rows")
    by_row: dict[tuple[int, bool], Verdict] = {}
    known: dict[int, Verdict] = {}
    for row, verdict in zip(_places(verdicts, rows), verdicts, strict=True):
        if verdict.positive is not None:
            other = known.setdefault(row, verdict)
            if verdict.positive != other.positive:
                raise InputError(f"{verdict.place}: contradicts the verdict of {other.place}")
        if by_row.setdefault((row, verdict.top), verdict).positive is None:
            by_row[row, verdict.top] = verdict
    places = {verdict.place for verdict in by_row.values()}
    in_top = int(sketch.unlabeled[top_of(sketch)].sum())
    unlabeled, labeled, top = (
        _counts(names, parts, places, part, size)
        for part, size in zip(PARTS, (sketch.n_unlabeled, sketch.n_labeled, in_top), strict=True)
    )
    drawn_rows = np.array([row for row, _ in by_row], np.int64)
    return Audit(tuple(by_row.values()), drawn_rows, (unlabeled, labeled, top))


def _name(audit: str | Table) -> str:
    return audit if isinstance(audit, str) else audit.name


def _read(audit: str | Table, ids: Sequence[str]) -> list[Verdict]:
    """The rows of an audit with ids in these columns."""
    table = open_table(audit) if isinstance(audit, str) else audit
    for column in (*ids, *COLUMNS[:-1]):
        table.require(column, "an audit")
    names = [column for column in (*ids, *COLUMNS) if column in table.columns]
    verdicts: list[Verdict] = []
    for chunk in _chunks(table, names):
        columns = [as_text(chunk, column).to_pylist() for column in names]
        for i, values in enumerate(zip(*columns, strict=True)):
            row = dict(zip(names, map(str.strip, values), strict=True))
            row["id"] = SEPARATOR.join(values[: len(ids)]).strip()
            verdicts.append(_verdict(chunk, i, row))
    return verdicts


def _chunks(table: Table, columns: Sequence[str]) -> Iterator[Chunk]:
    for batch, file, first in table.batches(columns):
        sets = np.zeros(batch.num_rows, np.int8)
        yield Chunk(batch, sets, 0, first, file, first, notation=table.notation)


def _verdict(chunk: Chunk, i: int, row: dict[str, str]) -> Verdict:
    def number(column: str, low: float, high: float = 1e300) -> float:
        value = chunk.notation.number(row[column])
        if not low <= value <= high:
            remedy = "; did a spreadsheet change it? Format the column as text before filling it in"
            raise chunk.error(column, f"has {shown(row[column])}", i, remedy)
        return value

    word, top = row["verdict"].lower(), row["stratum"].lower() == TOP
    if row["set"] not in SETS:
        remedy = f"; rows to verify are {' or '.join(SETS)}"
        raise chunk.error("set", f"has {shown(row['set'])}", i, remedy)
    if word not in (*YES, *NO, *UNSURE):
        remedy = "; a verdict is yes/no or 1/0, and stays empty where unsure"
        raise chunk.error("verdict", f"has {shown(row['verdict'])}", i, remedy)
    if top and row["set"] != SETS[0]:
        raise chunk.error("set", f"has {shown(row['set'])}", i, "; rows at the top are unlabeled")
    return Verdict(
        place=f"{chunk.file}: row {chunk.first_file_row + i + 1}",
        row=int(number("row", 1)) - 1 if row.get("row") else None,
        id=row["id"],
        labeled=row["set"] == SETS[1],
        stratum=0 if top else int(number("stratum", 1, MAX_STRATA)) - 1,
        weight=number("weight", 1 - SUM_TOLERANCE),
        posterior=number("posterior", 0, 1),
        positive=None if word in UNSURE else word in YES,
        top=top,
    )


def _places(verdicts: Sequence[Verdict], rows: Rows) -> list[int]:
    """The place of each row in SCORES: by its id and, if that is repeated, by its number."""
    ids = pa.array(sorted({verdict.id for verdict in verdicts}), pa.string())
    by_id: dict[tuple[str, bool], list[int]] = {}
    for chunk, _ in score_chunks(rows, rows.id_columns):
        ids_here = pc.utf8_trim_whitespace(rows.ids(chunk))
        drawable = chunk.labeled | chunk.unlabeled
        for i in np.flatnonzero(np.asarray(pc.is_in(ids_here, ids)) & drawable):
            key = ids_here[int(i)].as_py(), bool(chunk.labeled[i])
            by_id.setdefault(key, []).append(chunk.first_row + int(i))
    places = []
    for verdict in verdicts:
        matches = by_id.get((verdict.id, verdict.labeled), [])
        if len(matches) != 1 and verdict.row not in matches:
            what = f"{SETS[verdict.labeled]} row with the id {shown(verdict.id)}"
            problem = (
                f"{rows.tables[0].name} has more than one {what}; the column 'row' must say which"
            )
            if not matches:
                problem = f"{rows.tables[0].name} has no {what}"
            raise InputError(f"{verdict.place}: {problem}")
        places.append(matches[0] if len(matches) == 1 or verdict.row is None else verdict.row)
    return places


def _counts(
    names: Sequence[str],
    parts: Sequence[Sequence[Verdict]],
    places: Container[str],
    kind: Part,
    size: int,
) -> Verified | None:
    """The counts by stratum of one kind of rows over all audits; None if none was drawn.

    Verdicts count at the given places, weights at all of them.
    """
    by_audit = [[verdict for verdict in part if verdict.part == kind] for part in parts]
    strata = max((verdict.stratum + 1 for part in by_audit for verdict in part), default=0)
    if strata == 0:
        return None
    rows, checked, positive = np.zeros((3, strata))
    for name, part in zip(names, by_audit, strict=True):
        stratum = np.array([verdict.stratum for verdict in part], np.int64)
        total = np.bincount(stratum, [verdict.weight for verdict in part], strata)
        both = (rows > 0) & (total > 0)
        if not _same_strata(rows[both], total[both]):
            raise InputError(
                f"{name}: has other strata than {names[0]}; audits used together must be drawn "
                f"with the same {option('scores')} and {option('prior')}, and keep all their rows"
            )
        rows = np.maximum(rows, total)
        verdicts = [v.positive if v.place in places else None for v in part]
        checked += np.bincount(stratum, [v is not None for v in verdicts], strata)
        positive += np.bincount(stratum, [v is True for v in verdicts], strata)
    if not np.isclose(rows.sum(), size, rtol=SUM_TOLERANCE):
        raise InputError(
            f"{', '.join(names)}: the weights of the {kind} rows add up to {rows.sum():.0f}, not "
            f"to the {size} such rows of the scores; keep all rows, also those without a verdict, "
            "and use the scores that they were drawn from"
        )
    return Verified(*(np.rint(counts).astype(np.int64) for counts in (rows, checked, positive)))


def _same_strata(rows: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether two lists of the rows in each stratum are the same but for rounding."""
    return len(rows) == len(others) and np.allclose(rows, others, rtol=SUM_TOLERANCE, atol=1)
