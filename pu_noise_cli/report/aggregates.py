"""The few numbers that charts, tables and the terminal show, from the sketch and its calibration.

All of it takes time and space in the number of cells, not of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..calibration import Calibration, shift_prior
from ..sketch import LABELED, UNLABELED, FloatArray, IntArray, Sketch

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
    below = np.interp(edges[1:-1], sketch.scores, np.cumsum(weights) - weights / 2)
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
    rank = (np.cumsum(rows) - rows / 2) / rows.sum()
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
