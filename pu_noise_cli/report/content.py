"""Numbers as a reader wants them, and strangers' text as a page can carry it.

The few numbers that charts, tables and the terminal show, from the sketch and its calibration.

All of it takes time and space in the number of cells, not of rows.

What a report shows: priors, the calibrated scores, doubtful labels, and a run's provenance.

provenance.json may come from anywhere, so it is checked while it is read here; the rest of the
report relies on these classes.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..evidence.thresholds import Thresholds
from ..notices import Notice
from ..numerics import FloatArray, IntArray, mid_ranks, relative_mid_ranks
from ..posterior.bounds import bounds
from ..posterior.calibration import Calibration, corrected_auc, shift_prior
from ..posterior.groups import Groups
from ..posterior.table import DoubtfulRow, DoubtfulRows
from ..prior.base import Estimate, Interval
from ..prior.document import STATED, Prior
from ..prior.summary import lower_end
from ..score.sketch import Sketch
from ..tables.results import SCHEMA
from ..tables.rows import LABELED, UNLABELED

NBSP = "\u00a0"
SHORT = 48  # characters of a name that are shown at once
LONGEST = 20_000  # characters of a name that are kept at all
FULL_TEXT_BYTES = 150_000  # of all long names of a page together, so that it stays light
WIDE = 0.4  # an interval beyond which an estimate says little
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi marks, lone surrogates


def percent(share: float) -> str:
    """A share for reading: 18.5 %, and two decimals where it is nearly none or nearly all."""
    value = 100 * share
    edge = min(value, 100 - value)
    if 0 < edge < 0.005:
        return f"{value:.1g}{NBSP}%" if value < 50 else f"more than 99.99{NBSP}%"
    decimals = 0 if edge == 0 else 2 if edge < 1 else 1
    return f"{value:.{decimals}f}{NBSP}%"


def percent_range(interval: Interval) -> str:
    return f"{percent(lower_end(interval))} to {percent(interval[1])}"


def is_wide(share: float, interval: Interval | None) -> bool:
    """Whether an interval is wider than the estimate itself, or than four tenths."""
    return interval is not None and interval[1] - interval[0] > min(share, WIDE)


def count(number: float) -> str:
    """A number of rows, in groups of three digits."""
    return f"{round(number):,}"


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a table; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}g}"


def rounded(value: float) -> float:
    """A value as charts carry it: six digits say more than a screen can."""
    return float(f"{value:.6g}")


def visible(text: str) -> str:
    """Text in which what cannot be seen, or turns the writing around, is spelled out."""
    return "".join(
        c if c == " " or unicodedata.category(c) not in INVISIBLE else _spelled(c)
        for c in text[:LONGEST]
    )


def _spelled(character: str) -> str:
    names = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(character)
    return names.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def shortened(text: str, limit: int = SHORT) -> str:
    """A name on one line, cut where it is long."""
    line = visible(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def script_json(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Names:
    """Strangers' text as HTML: isolated, on one line, the whole of a long one behind a click.

    The whole text is kept until a budget is spent; of later long ones only the beginning is.
    """

    def __init__(self, budget: int = FULL_TEXT_BYTES) -> None:
        self.budget = budget

    def html(self, text: str, limit: int = SHORT) -> str:
        short = f"<bdi>{escape(shortened(text, limit))}</bdi>"
        if len(text) <= limit and len(visible(text)) <= limit:
            return short
        whole = f"<bdi>{escape(visible(text))}</bdi>"
        size = len(whole.encode())
        if size > self.budget:
            return f"{short} <small>({count(len(text))} characters)</small>"
        self.budget -= size
        cut = "" if len(text) <= LONGEST else f" … ({count(len(text))} characters)"
        return (
            f'<details class="long"><summary>{short}</summary>'
            f'<div class="whole">{whole}{cut}</div></details>'
        )


SCORE_BINS = 64  # a power of two: then the cells of scores in [0, 1] fall whole into bins
CURVE_POINTS = 160
RELIABILITY_GROUPS = 20
POSTERIOR_BINS = 20
POSTERIOR_LEVELS = (0.5, 0.9, 0.99)
FDR_LEVELS = (0.01, 0.05, 0.1, 0.2)
TAIL = 0.002  # the share of rows at either end that may lie outside the drawn range of scores
Z = 1.96


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Rows by score, in bins of even width; the end bins hold what lies beyond them."""

    edges: FloatArray  # (bins + 1,)
    labeled: FloatArray  # rows, (bins,)
    unlabeled: FloatArray
    negative: FloatArray


def score_range(sketch: Sketch) -> tuple[float, float]:
    """The scores to draw: [0, 1] where they fill it, else those of nearly all rows."""
    x = sketch.scores.clip(-1e300, 1e300)  # so that a difference is a number too
    low, high = float(x[0]), float(x[-1])
    samples = [rows for rows in (sketch.labeled, sketch.unlabeled, sketch.negative) if rows.any()]
    rank = np.cumsum(np.sum([rows / rows.sum() for rows in samples], axis=0)) / len(samples)
    inner_low, inner_high = x[np.searchsorted(rank, [TAIL, 1 - TAIL]).clip(0, len(x) - 1)]
    if low >= 0 and high <= 1 and inner_high - inner_low > 0.3:
        return 0.0, 1.0
    if high - low > 1.5 * (inner_high - inner_low) > 0:
        low, high = float(inner_low), float(inner_high)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = max(abs(low), 1.0) / 2
        return low - room, high + room
    return low, high


def score_bins(sketch: Sketch, bins: int = SCORE_BINS) -> ScoreBins:
    """The samples by score."""
    edges = np.linspace(*score_range(sketch), bins + 1)
    samples = sketch.labeled, sketch.unlabeled, sketch.negative
    return ScoreBins(edges, *(binned(sketch, rows, edges) for rows in samples))


def binned(sketch: Sketch, weights: FloatArray | IntArray, edges: FloatArray) -> FloatArray:
    """Sums over bins, shape (bins,), of weights of the cells, shape (cells,)."""
    if sketch.level == 0:
        bin_of = np.searchsorted(edges, sketch.scores, side="right") - 1
        bin_of = bin_of.clip(0, len(edges) - 2)
        return np.bincount(bin_of, weights, len(edges) - 1).astype(np.float64)
    # cells have a width here: those that straddle an edge are shared between the bins
    below = np.interp(edges[1:-1], sketch.scores, mid_ranks(weights))
    return np.diff(np.concatenate([[0.0], below, [weights.sum()]]))


@dataclass(frozen=True, eq=False)
class Roc:
    """Shares of two samples that score above each threshold, from (0, 0) to (1, 1)."""

    x: FloatArray  # (points,)
    y: FloatArray
    threshold: FloatArray


def roc(scores: FloatArray, upper: FloatArray | IntArray, lower: FloatArray | IntArray) -> Roc:
    """`upper` against `lower`, both weights of shape (cells,), at a few well-spread points."""
    y = np.append(0.0, np.cumsum(upper[::-1]) / upper.sum())
    x = np.append(0.0, np.cumsum(lower[::-1]) / lower.sum())
    threshold = np.append(scores[-1], scores[::-1])
    chosen = _spread((x + y) / 2, CURVE_POINTS)
    return Roc(x[chosen].clip(0, 1), y[chosen].clip(0, 1), threshold[chosen])


def observed_roc(sketch: Sketch, upper: int = LABELED, lower: int = UNLABELED) -> Roc:
    """The rows of one set against those of another, given by their codes."""
    return roc(sketch.scores, sketch.counts[:, upper], sketch.counts[:, lower])


def recovered_roc(calibration: Calibration) -> Roc | None:
    """Positives against negatives: an unlabeled row counts as p of one and 1-p of the other."""
    rows, p = calibration.population, calibration.posterior
    positives, negatives = rows * p, rows * (1 - p)
    if min(positives.sum(), negatives.sum()) <= 0:
        return None
    return roc(calibration.sketch.scores, positives, negatives)


def _spread(position: FloatArray, points: int) -> NDArray[np.intp]:
    """Indices of a few values of a sorted array that lie evenly over its range, with both ends."""
    wanted = np.linspace(position[0], position[-1], points)
    found = np.searchsorted(position, wanted).clip(0, len(position) - 1)
    return np.unique(np.concatenate([[0], found, [len(position) - 1]]))


def curve_cells(sketch: Sketch) -> NDArray[np.intp]:
    """The cells at which curves over the score are drawn: even in score and in rank."""
    low, high = score_range(sketch)
    by_score = np.searchsorted(sketch.scores, np.linspace(low, high, CURVE_POINTS // 2))
    by_rank = _spread(np.cumsum(sketch.counts.sum(1)), CURVE_POINTS // 2)
    cells = np.unique(np.concatenate([by_score, by_rank]).clip(0, len(sketch.scores) - 1))
    inside = (sketch.scores[cells] >= low) & (sketch.scores[cells] <= high)
    return cells[inside] if inside.any() else cells


@dataclass(frozen=True, eq=False)
class Reliability:
    """Groups of rows with neighbouring scores: the labeled share predicted, and what is seen."""

    predicted: FloatArray  # all (groups,)
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    rows: FloatArray


def reliability(calibration: Calibration) -> Reliability:
    """The labeled share of about twenty groups of even size, with 95 % Wilson intervals.

    Of labeled and unlabeled rows; where there are none of these, of labeled rows and negatives.
    """
    sketch = calibration.sketch
    rows = sketch.labeled + (sketch.unlabeled if sketch.n_unlabeled else sketch.negative)
    here = rows > 0
    labeled, rows, predicted = sketch.labeled[here], rows[here], _labeled_share(calibration)[here]
    rank = relative_mid_ranks(rows)
    _, group = np.unique(np.floor(rank * RELIABILITY_GROUPS), return_inverse=True)
    n = np.bincount(group, rows).astype(np.float64)
    share = np.bincount(group, labeled) / n
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return Reliability(
        predicted=np.bincount(group, rows * predicted) / n,
        observed=share,
        low=(middle - half).clip(0, 1),
        high=(middle + half).clip(0, 1),
        rows=n,
    )


def _labeled_share(calibration: Calibration) -> FloatArray:
    """The share of labeled rows that the calibration predicts in each cell, shape (cells,)."""
    sketch, beta = calibration.sketch, calibration.shares.beta
    if sketch.n_unlabeled:
        return calibration.tau
    density = beta * calibration.lr + 1 - beta  # of labeled rows, in units of that of negatives
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 + sketch.n_negative / (sketch.n_labeled * density)))


@dataclass(frozen=True, eq=False)
class PosteriorCurve:
    """What a score says of a row in one population; all arrays have shape (cells,)."""

    sketch: Sketch
    posterior: FloatArray
    fdr: FloatArray
    bounds: tuple[FloatArray, FloatArray] | None  # one-sided 95 % bounds on the posterior
    target_alpha: float | None  # None: the population is that of the unlabeled rows
    population: FloatArray | IntArray  # of the calibration: the unlabeled rows, or their stand-in
    alpha: float  # the share of positives in it
    rows_by_group: bool = False  # whether rows have posteriors by their groups, which differ

    @property
    def other_alpha(self) -> float | None:
        """The share of positives in the population, where it is not that of unlabeled rows."""
        if self.target_alpha is None and not self.sketch.n_unlabeled:
            return self.alpha
        return self.target_alpha

    @classmethod
    def of(
        cls,
        calibration: Calibration,
        target_alpha: float | None = None,
        bounds: tuple[FloatArray, FloatArray] | None = None,
    ) -> PosteriorCurve:
        """The curve in the population of the unlabeled rows, or in one with another α."""
        posterior, fdr = calibration.posterior, calibration.fdr
        if target_alpha is not None:
            posterior, fdr = shift_prior(calibration, target_alpha)
        known = calibration.population, calibration.shares.alpha
        return cls(calibration.sketch, posterior, fdr, bounds, target_alpha, *known)


def posterior_counts(curve: PosteriorCurve) -> FloatArray:
    """Unlabeled rows by posterior, in bins of even width over [0, 1], shape (bins,)."""
    bin_of = np.floor(curve.posterior * POSTERIOR_BINS).astype(int)
    bin_of = bin_of.clip(0, POSTERIOR_BINS - 1)
    rows = np.bincount(bin_of, curve.sketch.unlabeled, POSTERIOR_BINS)
    return rows.astype(np.float64)


@dataclass(frozen=True)
class Passing:
    """The rows that pass a level."""

    level: float
    rows: int  # unlabeled ones
    labeled: int
    negative: int  # known to be
    positive_share: float | None  # to be expected among such rows; None where no row passes
    lowest_score: float | None

    @property
    def positives(self) -> float:
        """How many of the unlabeled rows are expected to be positive."""
        return self.rows * (self.positive_share or 0.0)


def passing_posterior(curve: PosteriorCurve) -> list[Passing]:
    """Rows with a posterior of at least each level."""
    return [_passing(curve, curve.posterior >= level, level) for level in POSTERIOR_LEVELS]


def passing_fdr(curve: PosteriorCurve) -> list[Passing]:
    """Rows that can be called at each false discovery rate."""
    return [_passing(curve, curve.fdr <= level, level) for level in FDR_LEVELS]


def _passing(curve: PosteriorCurve, passes: NDArray[np.bool_], level: float) -> Passing:
    """Both criteria rise with the score: the rows that pass are all from the lowest one up."""
    sketch = curve.sketch
    cells = np.flatnonzero(passes & (curve.population > 0))
    if len(cells) == 0:
        return Passing(level, 0, 0, 0, None, None)
    lowest = cells[0]
    unlabeled, labeled, negative = sketch.counts[passes].sum(0).tolist()
    share, score = 1 - float(curve.fdr[lowest]), float(sketch.scores[lowest])
    return Passing(level, unlabeled, labeled, negative, share, score)


class Sample(NamedTuple):
    """One of the samples that a report compares."""

    name: str
    prior: Prior


@dataclass(frozen=True)
class InputFile:
    """A file that something was made from."""

    name: str
    sha256: str


@dataclass(frozen=True)
class ColumnSummary:
    """What one column holds in one table."""

    column: str
    table: str
    kind: str
    values: int
    missing: int
    levels: int | None


@dataclass(frozen=True)
class Provenance:
    """The part of a provenance.json that equal runs share: no folders, threads or versions."""

    version: str
    inputs: tuple[InputFile, ...]
    options: dict[str, Any]
    score_column: str | None  # None where the score was learned, or is not known
    columns: tuple[ColumnSummary, ...]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, file: str, value: Any) -> Provenance:
        """The provenance of a document; an input error names the file."""
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise InputError(f"{file}: not a {SCHEMA} document")
        try:
            return cls._checked(value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{file}: not a whole {SCHEMA} document ({error!r})") from None

    @classmethod
    def _checked(cls, value: dict[str, Any]) -> Provenance:
        tables = [entry["table"] for entry in value["inputs"]]
        given = {str(name): option for name, option in value["options"].items()}
        files = [name for name, option in given.items() if option in tables]
        score_column = value.get("score_column")
        return cls(
            version=str(value["punoise_version"]),
            inputs=tuple(
                InputFile(base_name(entry["file"]), str(entry["sha256"]))
                for entry in value["inputs"]
            ),
            options={name: base_name(given[name]) for name in files}
            | {name: value for name, value in given.items() if name not in files},
            score_column=None if score_column is None else str(score_column),
            columns=tuple(_column(entry) for entry in value["columns"]),
            notices=tuple(Notice(str(w["code"]), str(w["message"])) for w in value["warnings"]),
        )


def _column(value: dict[str, Any]) -> ColumnSummary:
    levels = value["levels"]
    if isinstance(levels, list | dict):
        levels = len(levels)
    return ColumnSummary(
        column=str(value["column"]),
        table=base_name(value["table"]),
        kind=str(value["kind"]),
        values=int(value["values"]),
        missing=int(value["missing"]),
        levels=None if levels is None else int(levels),
    )


def base_name(path: Any) -> str:
    """A file's name without its folders, which differ between machines."""
    return Path(str(path)).name or str(path)


@dataclass(frozen=True)
class SuspiciousLabel:
    """A doubtful row with what the calibration says of it."""

    row: int
    id: str
    score: float
    correct: float  # the probability that the label is


def suspicious_labels(
    rows: Sequence[DoubtfulRow], calibration: Calibration
) -> tuple[SuspiciousLabel, ...]:
    """The doubtful rows with the probability that they are what their labels say, lowest first."""
    cells = calibration.sketch.cell_index(np.array([row.score for row in rows], np.float64))
    correct = calibration.label_correct
    return tuple(
        SuspiciousLabel(row.row, row.id, row.score, float(correct[cell]))
        for row, cell in zip(rows, cells, strict=True)
    )


@dataclass(frozen=True)
class ReportContent:
    """All that the page of one sample is made of."""

    prior: Prior
    calibration: Calibration  # in the population of the unlabeled rows, as is all but `by_score`
    by_score: PosteriorCurve  # in the population that the posteriors are for
    suspicious: tuple[SuspiciousLabel, ...]
    provenance: Provenance | None = None
    sources: tuple[InputFile, ...] = ()  # the files that the report itself was made from
    thresholds: Thresholds | None = None  # of levels of evidence
    groups: Groups | None = None

    @property
    def sketch(self) -> Sketch:
        return self.calibration.sketch

    @property
    def answer(self) -> Estimate:
        """The estimate, without which there is no calibration."""
        assert self.prior.answer is not None
        return self.prior.answer

    @property
    def is_stated(self) -> bool:
        """Whether α and β are the user's own."""
        return self.prior.method == STATED

    @property
    def labeled_positives(self) -> float:
        """The share of positives among the labeled rows."""
        return 1 - self.answer.beta if self.prior.labeled_negatives else self.answer.beta

    @property
    def auc(self) -> float | None:
        """The AUC of positives against negatives, as far as α and β tell it."""
        return self.prior.auc if self.sketch.n_unlabeled else corrected_auc(self.calibration)

    @property
    def score_title(self) -> str:
        """What an axis of scores is called: the column that they come from, where that is known."""
        given = self.provenance
        if given is None or given.score_column is None:
            return "score"
        turned = " (opposite sign)" if given.options.get("lower_is_positive") is True else ""
        return shortened(given.score_column) + turned

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The warnings of all steps, each once."""
        given = () if self.provenance is None else self.provenance.notices
        of_groups = () if self.groups is None else self.groups.notices
        found = (*given, *self.prior.notices, *self.calibration.notices, *of_groups)
        return tuple(dict.fromkeys(found))


def content_of_run(
    prior: Prior,
    calibration: Calibration,
    doubtful: DoubtfulRows,
    made_of: dict[str, Any],
    by_score: PosteriorCurve | None = None,
    thresholds: Thresholds | None = None,
) -> ReportContent:
    """The content of the report of a run, from what the run has in hand."""
    if by_score is None:
        bounds = bounds_on_posterior(calibration, prior.seed)
        by_score = PosteriorCurve.of(calibration, bounds=bounds)
    return ReportContent(
        prior,
        calibration,
        by_score,
        suspicious_labels(doubtful.kept, calibration),
        Provenance.of("provenance.json", made_of),
        thresholds=thresholds,
    )


def bounds_on_posterior(
    calibration: Calibration, seed: int, target_alpha: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """One-sided 95 % bounds for the chart of posteriors, both of shape (cells,)."""
    return bounds(calibration, seed).at(target_alpha)
