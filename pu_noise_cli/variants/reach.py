"""The likelihood ratios that so many rows can show, whatever fraction of them are outliers.

If a fraction e of the negatives score like positives, no likelihood ratio exceeds 1/e. Counts
exclude only fractions above a limit: n known negatives, none of them among the high scores, exclude
fractions above 3/n. So they cannot show a ratio above n/3, however steeply a curve through their
scores rises.

As the ratio f1/f0 does not fall with the score, it is at least the ratio of the two fractions in
any range of lower scores. The highest such ratio, with the negatives in the range at their upper
confidence limit, is what the counts show by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..numerics import FloatArray, IntArray
from ..posterior.calibration import NONE_EXPECTED, ONE_SIDED, Bounds, Calibration, widen
from ..prior.base import SMALLEST, Shares
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, UNLABELED

MAX_STARTS = 400  # of ranges
TABULATED = 1000  # counts whose limits are exact
Z = 1.6449  # the quantile of the normal distribution at ONE_SIDED ...
Z_LOWER = 1.2816  # ... and at 90%, for the fraction that is compared with an upper limit


@dataclass(frozen=True, eq=False)
class Reach:
    """The least and the greatest likelihood ratio that counts show by themselves, by cell.

    Both have shape (cells,) and do not fall with the score: up to each cell the ratio is at most
    `least`, from each cell up it is at least `greatest`.
    """

    least: FloatArray
    greatest: FloatArray

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> Reach:
        """What the rows of a calibration show, given its α and β."""
        if calibration.mirrored is not None:
            mirrored = cls.from_calibration(calibration.mirrored)
            return cls(1 / mirrored.greatest[::-1], 1 / mirrored.least[::-1])
        sketch, shares = calibration.sketch, calibration.shares
        if not calibration.informative:
            return cls(*np.ones((2, len(sketch.edges))))
        greatest = _greatest(sketch.counts, lambda rows: _ratio_for(rows, sketch, shares))
        against = _greatest(sketch.counts[::-1], lambda rows: _ratio_against(rows, sketch, shares))
        return cls(1 / against[::-1], greatest)

    def limit(self, bounds: Bounds, calibration: Calibration) -> Bounds:
        """The bounds, none of them on a likelihood ratio beyond what counts show.

        Where groups widen the bounds, they do so here, too.
        """
        lr = calibration.lr
        shown = Bounds(
            (np.minimum(self.greatest, lr), np.maximum(self.least, lr)), bounds.posterior
        )
        if bounds.widening is not None:
            shown = widen(shown, calibration, bounds.widening)
        low, high = np.minimum(bounds.lr[0], shown.lr[0]), np.maximum(bounds.lr[1], shown.lr[1])
        return replace(bounds, lr=(low, high))


def reach_of_counts(calibration: Calibration) -> tuple[float, float]:
    """The least and the greatest likelihood ratio that so many rows can show, whatever they score.

    That is if none of the rows of one class is among the scores of the other.
    """
    if calibration.mirrored is not None:
        least, greatest = reach_of_counts(calibration.mirrored)
        return 1 / greatest, 1 / least
    sketch, shares = calibration.sketch, calibration.shares
    negatives = max(sketch.n_negative, (1 - shares.alpha) * sketch.n_unlabeled)
    none_seen = float(upper_limit(np.zeros(1, np.int64))[0])
    return none_seen / (shares.beta * sketch.n_labeled), negatives / none_seen


def _greatest(counts: IntArray, ratio: Callable[[IntArray], FloatArray]) -> FloatArray:
    """The greatest ratio of any range of cells that ends at or before each cell, shape (cells,)."""
    cells = len(counts)
    before = np.concatenate([np.zeros_like(counts[:1]), counts.cumsum(0)])
    greatest = np.full(cells, SMALLEST)
    for start in np.unique(np.linspace(0, cells - 1, min(cells, MAX_STARTS)).astype(int)):
        ratios = ratio(before[start + 1 :] - before[start])
        greatest[start:] = np.maximum(greatest[start:], ratios)
    return np.maximum.accumulate(greatest)


def _ratio_for(rows: IntArray, sketch: Sketch, shares: Shares) -> FloatArray:
    """The least f1/f0 of ranges with so many rows of each set, shape (ranges, 3)."""
    alpha = shares.alpha
    positive, _ = _fractions(rows, sketch, shares)
    limits = []
    if sketch.n_negative:
        limits.append(upper_limit(rows[:, NEGATIVE]) / sketch.n_negative)
    if sketch.n_unlabeled:
        limits.append(_rest(rows[:, UNLABELED], sketch.n_unlabeled, alpha * positive, 1 - alpha))
    return np.asarray(_at_lower_limit(positive, rows[:, LABELED]) / np.min(limits, axis=0))


def _ratio_against(rows: IntArray, sketch: Sketch, shares: Shares) -> FloatArray:
    """The least f0/f1 of ranges with so many rows of each set, shape (ranges, 3)."""
    _, negative = _fractions(rows, sketch, shares)
    wrong = (1 - shares.beta) * negative
    least = _at_lower_limit(negative, rows[:, NEGATIVE if sketch.n_negative else UNLABELED])
    return least / _rest(rows[:, LABELED], sketch.n_labeled, wrong, shares.beta)


def _at_lower_limit(fraction: FloatArray, rows: IntArray) -> FloatArray:
    """The lower confidence limit on a fraction that so many rows show, shape (ranges,)."""
    return np.asarray(fraction * np.maximum(1 - Z_LOWER / np.sqrt(rows + 1.0), 0))


def _fractions(rows: IntArray, sketch: Sketch, shares: Shares) -> tuple[FloatArray, FloatArray]:
    """The fractions of all positives and of all negatives in ranges, each of shape (ranges,)."""
    alpha, beta, labeled = shares.alpha, shares.beta, rows[:, LABELED] / sketch.n_labeled
    if sketch.n_negative:
        negative = rows[:, NEGATIVE] / sketch.n_negative
        positive = (labeled - (1 - beta) * negative) / beta
    else:
        unlabeled = rows[:, UNLABELED] / sketch.n_unlabeled
        positive = ((1 - alpha) * labeled - (1 - beta) * unlabeled) / (beta - alpha)
        negative = (beta * unlabeled - alpha * labeled) / (beta - alpha)
    return np.clip(positive, 0, 1), np.clip(negative, 0, 1)


def _rest(rows: IntArray, n: int, others: FloatArray, fraction: float) -> FloatArray:
    """The upper limit on the fraction of a class in ranges, if n rows are partly of that class.

    Of the rows in a range, `others` of n belong to the other class.
    """
    return np.maximum(upper_limit(rows) / n - others, NONE_EXPECTED / n) / fraction


def upper_limit(rows: IntArray) -> FloatArray:
    """The upper confidence limit on the expected number of rows where so many were seen."""
    mean = rows + 1.0
    # Wilson and Hilferty's approximation, good to one in ten thousand from TABULATED on
    limits = mean * (1 - 1 / (9 * mean) + Z / (3 * np.sqrt(mean))) ** 3
    few = rows < TABULATED
    limits[few] = _exact_limits()[rows[few]]
    return np.asarray(limits)


@cache
def _exact_limits() -> FloatArray:
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(np.arange(TABULATED) + 1.0, ONE_SIDED))
