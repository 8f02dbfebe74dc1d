"""What a few verified rows say of a share: strata, how many rows of each, and the interval.

Nothing here rests on a model: strata may be cut and rows allotted by one, which decides how wide
the interval is, but whether it holds depends on the random draw within the strata alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .estimators import Interval
from .sketch import FloatArray, IntArray

STRATA = 12
GUIDED = 0.7  # of the rows are allotted by the model, the others evenly, lest it be wrong
LEAST = 2  # rows of each stratum
LEVEL = 0.95
POINTS = 4096  # between 0 and 1 at which distributions of shares are kept
LOST = 0.5  # verdicts, of each of several strata that has both kinds, see Verified._quantiles
TINY = 1e-9  # in place of no positives, or of no negatives


@dataclass(frozen=True, eq=False)
class Verified:
    """How many rows each stratum has, were verified, and are positive; all of shape (strata,)."""

    rows: IntArray
    checked: IntArray
    positive: IntArray | FloatArray  # on average, where it is not known yet

    def _quantiles(self, more: float, less: float, levels: FloatArray) -> FloatArray:
        """Quantiles of the share of positives among all rows, of the levels' shape.

        In each stratum the share has the distribution Beta(positives, negatives), with a part of
        the positives and negatives that are to be assumed beyond those seen in all strata. Few
        verdicts vary less among themselves than the rows do, by one part in as many, so that those
        of a stratum with both kinds count for a little less than they are.
        """
        from scipy.special import betainc

        both = (self.positive > 0) & (self.positive < self.checked) & (len(self.rows) > 1)
        counted = np.where(both, 1 - LOST / np.maximum(self.checked, 1), 1.0)
        a = counted * self.positive + more / len(self.rows)
        b = counted * (self.checked - self.positive) + less / len(self.rows)
        # an edited audit may have lost all rows of a small stratum, which then says nothing
        size = np.maximum(self.rows[:, None] / self.rows.sum(), 1e-300)
        ends = np.clip((np.arange(POINTS + 1) - 0.5) / (POINTS - 1) / size, 0, 1)
        cdf = betainc(np.maximum(a, TINY)[:, None], np.maximum(b, TINY)[:, None], ends)
        # sums of the strata: a product of Fourier transforms, with room for all of them
        parts = np.fft.rfft(np.diff(cdf, axis=1), 2 * POINTS, axis=1)
        mass = np.fft.irfft(np.prod(parts, axis=0))[:POINTS].clip(0)
        below = np.append(0.0, np.cumsum(mass) / mass.sum())
        edges = np.clip((np.arange(POINTS + 1) - 0.5) / (POINTS - 1), 0, 1)
        return np.asarray(np.interp(levels, below, edges))

    @property
    def interval(self) -> Interval:
        """A 95 % interval of the share of positives among all rows.

        Clopper and Pearson's limits are quantiles of Beta(k, n - k + 1) and of Beta(k + 1, n - k):
        one negative, or one positive, beyond those seen. In several strata it is one in all of
        them together, a part in each (Tiwari, Clegg and Zou 2006, for rates).
        """
        tail = np.array([(1 - LEVEL) / 2])
        low, high = self._quantiles(0, 1, tail), self._quantiles(1, 0, 1 - tail)
        none, all_of_them = self.positive.sum() == 0, (self.positive == self.checked).all()
        return (0.0 if none else float(low[0])), (1.0 if all_of_them else float(high[0]))

    def draws(self, n: int) -> FloatArray:
        """Equally likely shares in increasing order, shape (n,): between the two extremes."""
        return self.quantiles((np.arange(n) + 0.5) / n)

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Quantiles of the share, of the levels' shape: half a row more of either kind."""
        return self._quantiles(0.5, 0.5, levels)

    @property
    def estimate(self) -> float:
        """The share of positives among all rows: never 0, for the rows that were not seen."""
        part = 0.5 / len(self.rows)
        share = (self.positive + part) / (self.checked + 2 * part)
        return float(self.rows @ share / self.rows.sum())


def stratify(posterior: FloatArray, rows: IntArray) -> tuple[IntArray, FloatArray]:
    """The stratum of each cell, and the part of the rows to verify that each stratum is due.

    Cells are in order of their posterior; posterior, rows and strata have shape (cells,), the parts
    (strata,). Strata are equal in what they are due: mostly as √(p(1-p)) (Neyman 1934), by which
    the estimate varies least, and partly as their rows.
    """
    doubt = rows * np.sqrt(posterior * (1 - posterior))
    due = rows / rows.sum()
    if doubt.sum() > 0:
        due = GUIDED * doubt / doubt.sum() + (1 - GUIDED) * due
    stratum = np.minimum(((np.cumsum(due) - due / 2) * STRATA).astype(int), STRATA - 1)
    seen = stratum[rows > 0]
    stratum = np.searchsorted(np.unique(seen), stratum).clip(0, len(np.unique(seen)) - 1)
    return np.asarray(stratum, np.int64), np.bincount(stratum, due).astype(np.float64)


def allot(total: int, due: FloatArray, rows: IntArray) -> IntArray:
    """How many rows of each stratum to verify, shape (strata,): all that are wanted, if there."""
    total = min(total, int(rows.sum()))
    found = np.minimum(np.maximum(np.floor(total * due), LEAST).astype(int), rows)
    while (gap := total - found.sum()) != 0:
        missing = np.sign(gap) * (total * due - found)
        possible = found < rows if gap > 0 else found > min(LEAST, total // len(rows))
        found[np.argmax(np.where(possible, missing, -np.inf))] += np.sign(gap)
    return np.asarray(found, np.int64)


def width_foreseen(total: int, due: FloatArray, rows: IntArray, share: FloatArray) -> float:
    """The width of the interval after so many verdicts, if the model's shares are right."""
    checked = allot(total, due, rows)
    low, high = Verified(rows, checked, checked * share).interval
    return high - low
