"""The share of positives of each of many groups, which lean on each other: partial pooling.

All groups have the f1 and f0 of the whole, but for a shift that moves all scores of a group. Their
shares come from one Beta distribution and their shifts from one normal distribution, both unknown.
What is said of a group is an average over all of these, each weighted by how likely it makes the
counts: so a group of 20 rows leans on all, and one of 2,000 on itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from ..numerics import FloatArray, IntArray, expit, mid_ranks, relative_mid_ranks
from ..tables.rows import LABELED, NEGATIVE, UNLABELED
from .calibration import Calibration, calibrate, spread

BINS = 64  # of scores, at most
WIDEST = 7.0  # logarithms of likelihood ratios beyond which bins do not tell them apart
LOGITS = np.linspace(-9, 6, 121)  # that a share may have
SHIFTS = np.linspace(-1, 1, 17)  # of a group, on the scale where all scores are standard normal
FARTHEST = 8.0  # from 0, on that scale, that any score is
SPREADS = (0.0, 0.08, 0.15, 0.3, 0.5)  # standard deviations of the shifts
UNLIKE = 1e-6  # the probability that a group is unlike all others
COPIES = 20  # of the likely pairs of α and β of the whole
TEMPER = 0.5  # of what groups say of these pairs: in full it is too much where f1 and f0 vary
FITTED = 2000  # groups, at most, of which the distributions of shares and shifts are learned
NEGLIGIBLE = 1e-3  # a weight, relative to the largest
AT_ONCE = 256  # groups, to bound the memory
SMALLEST = 1e-9  # of a bin's probability: no row rules out a group's share alone


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals of the score, within each of which it says nearly the same."""

    first: IntArray  # (bins,): the first cell of each
    place: FloatArray  # (cells,): of the cell's middle, on the scale where scores are normal
    end: FloatArray  # (cells,): of its upper end; the last is infinite

    @classmethod
    def of(cls, calibration: Calibration) -> Bins:
        """Bins of a calibrated sketch, evenly wide in the logarithm of the likelihood ratio."""
        from scipy.special import ndtri

        with np.errstate(divide="ignore"):
            log_lr = np.log(calibration.lr).clip(-WIDEST, WIDEST)
        width = max(float(np.ptp(log_lr)) / BINS, SMALLEST)
        steps = np.minimum((log_lr - log_lr[0]) / width, BINS - 1).astype(int)
        rows = calibration.sketch.counts.sum(1)
        upper = np.cumsum(rows)
        first = np.flatnonzero(np.diff(steps, prepend=-1))
        return cls(first, ndtri(relative_mid_ranks(rows)), ndtri(upper / upper[-1]))

    @property
    def by_cell(self) -> IntArray:
        """The bin of each cell, shape (cells,)."""
        starts = np.zeros(len(self.place), np.int64)
        starts[self.first[1:]] = 1
        return np.cumsum(starts)

    def moved(self, cells: IntArray, by: FloatArray) -> IntArray:
        """The cells at which given ones are after a shift each, all of shape (n,)."""
        to = self.place[cells] + by
        right = np.minimum(np.searchsorted(self.place, to), len(self.place) - 1)
        left = np.maximum(right - 1, 0)
        return np.where(to - self.place[left] < self.place[right] - to, left, right)

    def shifted(self, masses: FloatArray) -> FloatArray:
        """The masses of the bins after each of SHIFTS, shape (shifts, bins), given the cells'."""
        below = np.concatenate([[0.0], np.cumsum(masses[:-1]) / masses.sum(), [1.0]])
        at = np.concatenate([[-FARTHEST], self.end[:-1], [FARTHEST]])
        ends = self.end[self.first[1:] - 1]
        found = np.interp(ends - SHIFTS[:, None], at, below)
        return np.diff(found, prepend=0.0, append=1.0, axis=1).clip(SMALLEST)


def masses(calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """How much of f1, and of f0, is in each cell, both of shape (cells,)."""
    lr, alpha = calibration.lr, calibration.shares.alpha
    certain = np.isinf(lr)
    finite = np.where(certain, 1.0, lr)
    base = calibration.population / (alpha * finite + 1 - alpha)
    return (
        np.where(certain, calibration.population / max(alpha, SMALLEST), base * finite),
        np.where(certain, 0.0, base),
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """What rows of a bin say of a group, if α, β, f1 and f0 of the whole are as in one copy."""

    by_share: FloatArray  # (bins, shares * shifts): log-probability of an unlabeled row
    by_shift: FloatArray  # (sets, bins, shifts): of a row of the other sets
    whole: FloatArray  # (sets, bins): of a row of any set, if groups did not differ

    @classmethod
    def of(cls, calibration: Calibration, bins: Bins) -> _Model:
        f1, f0 = map(bins.shifted, masses(calibration))
        share, beta = expit(LOGITS), calibration.shares.beta
        mixed = f1.T[:, None, :] * share[:, None] + f0.T[:, None, :] * (1 - share[:, None])
        others = np.zeros((3, f1.shape[1], len(SHIFTS)))
        others[LABELED] = np.log(beta * f1 + (1 - beta) * f0).T
        others[NEGATIVE] = np.log(f0).T
        alpha, unmoved = calibration.shares.alpha, len(SHIFTS) // 2
        whole = others[:, :, unmoved].copy()
        whole[UNLABELED] = np.log(alpha * f1[unmoved] + (1 - alpha) * f0[unmoved])
        return cls(np.log(mixed).reshape(len(mixed), -1), others, whole)

    def likelihoods(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Of groups' counts (n, sets, bins): likelihoods (n, shares, shifts) up to exp of (n,)."""
        found = (counts[:, UNLABELED] @ self.by_share).reshape(len(counts), len(LOGITS), -1)
        for code in (LABELED, NEGATIVE):
            found += (counts[:, code] @ self.by_shift[code])[:, None, :]
        top = found.max((1, 2))
        return np.exp(found - top[:, None, None]), top


@cache
def _share_priors() -> FloatArray:
    """The Beta distributions that shares may come from, on LOGITS, shape (shares, priors).

    All have one mode. Where 0 could be the likeliest share of all, groups that are nearly alike
    would be taken for f0 itself, and have no positives.
    """
    logits, sizes = np.meshgrid(np.linspace(-6, 4, 41), 2.0 ** np.arange(-1, 9.1, 0.5))
    mean, size = expit(logits.ravel()), sizes.ravel()
    log_share, log_rest = -np.log1p(np.exp(-LOGITS)), -np.log1p(np.exp(LOGITS))
    first, second = np.maximum(mean * size, 1.0), np.maximum((1 - mean) * size, 1.0)
    density = np.outer(log_share, first) + np.outer(log_rest, second)
    chance = np.exp(density - density.max(0))
    return np.asarray(chance / chance.sum(0) * (1 - UNLIKE) + UNLIKE / len(LOGITS))


@cache
def _shift_priors() -> FloatArray:
    """The normal distributions that shifts may come from, on SHIFTS, shape (spreads, shifts)."""
    spread = np.maximum(SPREADS, SMALLEST)[:, None]
    chance = np.exp(-0.5 * (SHIFTS / spread) ** 2)
    return np.asarray(chance / chance.sum(1, keepdims=True) * (1 - UNLIKE) + UNLIKE / len(SHIFTS))


@dataclass(frozen=True, eq=False)
class _Fit:
    """How probable each pair of priors is, given the counts, and how well they fit together.

    The latter beyond how well the counts of all groups together fit, which is known from before.
    """

    weights: FloatArray  # (spreads, priors)
    evidence: float

    @classmethod
    def of(cls, model: _Model, counts: IntArray) -> _Fit:
        log_weights = np.zeros((len(SPREADS), _share_priors().shape[1]))
        total = -float((counts.sum(0) * model.whole).sum())
        for some in _blocks(len(counts)):
            likelihood, top = model.likelihoods(counts[some])
            total += float(top.sum())
            for i, shifts in enumerate(_shift_priors()):
                log_weights[i] += np.log((likelihood @ shifts) @ _share_priors()).sum(0)
        best = log_weights.max()
        weights = np.exp(log_weights - best)
        return cls(weights / weights.sum(), total + best + float(np.log(weights.mean())))

    @cached_property
    def likely(self) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """For each spread that counts: its shifts, priors (shares, n) and their weights (n,)."""
        least = NEGLIGIBLE * self.weights.max()
        pairs = zip(_shift_priors(), self.weights, strict=True)
        return [
            (shifts, _share_priors()[:, weights >= least], weights[weights >= least])
            for shifts, weights in pairs
            if (weights >= least).any()
        ]

    def joint(self, likelihood: FloatArray) -> FloatArray:
        """How probable shares and shifts of groups are, given likelihoods of the same shape."""
        found = np.zeros_like(likelihood)
        for shifts, priors, weights in self.likely:
            by_share = likelihood @ shifts
            of_share = (weights / (by_share @ priors)) @ priors.T
            found += likelihood * of_share[:, :, None] * shifts
        return np.asarray(found / found.sum((1, 2), keepdims=True))


@dataclass(frozen=True, eq=False)
class PooledShares:
    """What is said of each group, arrays of shape (groups,)."""

    alpha: FloatArray
    alpha_low: FloatArray  # with alpha_high a 95 % interval
    alpha_high: FloatArray
    shift: FloatArray  # how much higher its scores lie, on the scale of Bins.place


def pool(calibration: Calibration, bins: Bins, counts: IntArray) -> PooledShares:
    """Estimate for groups with counts of shape (groups, sets, bins), of which the first is special:

    it stands for all groups that have no place of their own, and the others do not learn from it.
    """
    copies = _copies(calibration)
    models = [_Model.of(copy, bins) for copy in copies]
    learn = counts[1:]
    learn = learn[:: -(-len(learn) // FITTED)] if len(learn) else learn
    fits = [_Fit.of(model, learn) for model in models]
    evidence = TEMPER * np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    share, shift = np.zeros((len(counts), len(LOGITS))), np.zeros(len(counts))
    weights[weights < NEGLIGIBLE] = 0
    for weight, model, fit in zip(weights / weights.sum(), models, fits, strict=True):
        for some in _blocks(len(counts)) if weight else ():
            joint = weight * fit.joint(model.likelihoods(counts[some])[0])
            share[some] += joint.sum(2)
            shift[some] += joint.sum(1) @ SHIFTS
    low, high = (_quantile(share, level) for level in (0.025, 0.975))
    return PooledShares(share @ expit(LOGITS), low, high, shift)


def _copies(calibration: Calibration) -> Sequence[Calibration]:
    """The calibration for several of the likely pairs of α and β of all rows."""
    if not calibration.shares.draws:
        return [calibration]
    several = spread(calibration.shares, COPIES)
    copies = [calibrate(calibration.sketch, one, calibration.smooth) for one in several]
    return [copy for copy in copies if copy.informative] or [calibration]


def _quantile(chance: FloatArray, level: float) -> FloatArray:
    """The share below which each group's is with a probability, shape (groups,)."""
    return expit(np.array([np.interp(level, row, LOGITS) for row in mid_ranks(chance)]))


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, rows, AT_ONCE))
