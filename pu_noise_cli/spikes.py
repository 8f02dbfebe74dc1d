"""Values that too many rows share: codes for a missing value, and scores that end in a wall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .notices import declare
from .sketch import FloatArray, IntArray

LONE_SHARE, LONE_ROWS = 0.01, 5  # of the rows of a sample, at least
LEAST_OTHERS = 20  # distinct values, for a lone one to stand apart from
FAR = 5  # times as far from the others as these are from each other
WALL_SHARE, WALL_ROWS, WALL_HEIGHT = 0.005, 10, 2  # of rows, and times the cells below it
CELLS_BELOW = 5

LONE_VALUE = declare(
    "lone-value",
    "Many rows have one and the same value, a whole number far from all others or the only one of "
    "its sign, as -1 or 0 where a value is missing.",
    "If it means a missing value, say so: --na -1, and --missing-score skip where it is a score.",
)


class Lone(NamedTuple):
    """A value at one end that stands apart."""

    value: float
    share: float  # of the rows of the sample in which it is most frequent
    nearest: float  # of the other values
    farthest: float

    def told(self, what: str) -> str:
        """The message of the warning about it."""
        low, high = sorted((self.nearest, self.farthest))
        return (
            f"{self.share:.1%} of the rows have {what} {self.value:g} and all others one of "
            f"{low:g} to {high:g}: does it mean a missing value (--na {self.value:g})?"
        )


def lone_value(values: FloatArray, counts: IntArray) -> Lone | None:
    """The lone value at one end, if there is one.

    `values` are distinct and in order, shape (n,); `counts` are their rows in each sample, shape
    (n, samples).
    """
    if len(values) <= LEAST_OTHERS:
        return None
    sizes = counts.sum(0).clip(1)
    enough = (counts >= LONE_ROWS) & (counts >= LONE_SHARE * sizes)
    for end, rest in ((0, slice(1, None)), (-1, slice(-1))):
        if not enough[end].any() or not float(values[end]).is_integer():
            continue
        others = values[rest]
        if _apart(values[end], others, end, (counts[rest] / sizes).sum(1)):
            share = float((counts[end] / sizes)[enough[end]].max())
            return Lone(float(values[end]), share, float(others[end]), float(others[-1 - end]))
    return None


def _apart(value: float, others: FloatArray, end: int, weights: FloatArray) -> bool:
    """Whether a value has a sign of its own, or is far from others in order, shape (n,)."""
    if value < 0 <= others[0] or value > 0 >= others[-1]:
        return True
    rank = weights.cumsum()
    low, high = others[np.searchsorted(rank, rank[-1] * np.array([0.25, 0.75]))]
    return bool(abs(value - others[end]) > max(high - low, FAR * np.median(np.diff(others))))


def lone_in_column(column: FloatArray, labeled: NDArray[np.bool_]) -> Lone | None:
    """The lone value of a column of numbers, shape (n,), NaN where one is missing."""
    known = ~np.isnan(column)
    ends = (column == column[known].min(initial=np.inf)) | (
        column == column[known].max(initial=-np.inf)
    )
    if ends.sum() < LONE_ROWS:  # of most columns, which need not be sorted
        return None
    values, place = np.unique(column[known], return_inverse=True)
    counts = np.bincount(2 * place + labeled[known], minlength=2 * len(values))
    return lone_value(values, counts.reshape(-1, 2))


def wall(counts: IntArray) -> NDArray[np.float64] | None:
    """The share of each sample at the highest score, if so many rows tie there, shape (samples,).

    `counts` are the rows at each score in order, shape (n, samples). Where scores thin out, the
    highest has fewer rows than those below it; where they run into a wall, more.
    """
    if len(counts) <= CELLS_BELOW:
        return None
    shares = counts / counts.sum(0).clip(1)
    height, below = shares[-1].mean(), shares[-1 - CELLS_BELOW : -1].mean()
    if counts[-1].sum() < WALL_ROWS or height < max(WALL_SHARE, WALL_HEIGHT * below):
        return None
    return np.asarray(shares[-1])
