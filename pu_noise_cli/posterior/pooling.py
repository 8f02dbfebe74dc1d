"""The fraction of positives of each of many groups, by partial pooling.

All groups share f1 and f0, up to a shift of all scores of a group. Their fractions come from one
Beta distribution and their shifts from one normal distribution, both unknown. Estimates average
over these distributions, weighted by the likelihood of the counts: a group of 20 rows borrows from
all others, a group of 2,000 hardly does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..numerics import FloatArray, IntArray, expit, mid_ranks, relative_mid_ranks
from ..prior.base import SMALLEST
from ..tables.rows import LABELED, NEGATIVE, UNLABELED
from .calibration import Calibration, calibrate, class_densities, spread

MAX_BINS = 64
MAX_LOG_LR = 7.0  # bins do not distinguish log likelihood ratios beyond it
LOGITS = np.linspace(-9, 6, 121)  # of the fraction of positives of a group
SHIFTS = np.linspace(-1, 1, 17)  # of a group, on the scale on which all scores are standard normal
FARTHEST = 8.0  # from 0, on that scale, that any score is
SPREADS = (0.0, 0.08, 0.15, 0.3, 0.5)  # standard deviations of the shifts
UNLIKE = 1e-6  # the probability that a group is unlike all others
COPIES = 20  # likely pairs of α and β of all rows
TEMPER = 0.5  # of the evidence of groups on these pairs: in full it is too much where f1, f0 vary
FITTED = 2000  # groups, at most, from which the distributions of fractions and shifts are learned
NEGLIGIBLE = 1e-3  # a weight, relative to the largest
AT_ONCE = 256  # groups; limits the memory


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals of the score with nearly the same likelihood ratio."""

    first: IntArray  # (bins,): the first cell of each
    by_cell: IntArray  # (cells,): the bin of each cell
    position: FloatArray  # (cells,): of the cell's middle, on the scale on which scores are normal
    end: FloatArray  # (cells,): of its upper end; the last is infinite

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> Bins:
        """Bins of equal width in the logarithm of the likelihood ratio."""
        from scipy.special import ndtri

        with np.errstate(divide="ignore"):
            log_lr = np.log(calibration.lr).clip(-MAX_LOG_LR, MAX_LOG_LR)
        width = max(float(np.ptp(log_lr)) / MAX_BINS, SMALLEST)
        steps = np.minimum((log_lr - log_lr[0]) / width, MAX_BINS - 1).astype(int)
        rows = calibration.sketch.counts.sum(1)
        upper = np.cumsum(rows)
        begins = np.diff(steps, prepend=-1) != 0
        position = ndtri(relative_mid_ranks(rows))
        by_cell = np.cumsum(begins) - 1
        return cls(np.flatnonzero(begins), by_cell, position, ndtri(upper / upper[-1]))

    def moved(self, cells: IntArray, by: FloatArray) -> IntArray:
        """The cells to which shifts move cells, all of shape (n,)."""
        position = self.position
        to = position[cells] + by
        right = np.minimum(np.searchsorted(position, to), len(position) - 1)
        left = np.maximum(right - 1, 0)
        return np.where(to - position[left] < position[right] - to, left, right)

    def shifted(self, masses: FloatArray) -> FloatArray:
        """The masses of the bins after each of SHIFTS, shape (shifts, bins), from the cells'."""
        below = np.concatenate([[0.0], np.cumsum(masses[:-1]) / masses.sum(), [1.0]])
        at = np.concatenate([[-FARTHEST], self.end[:-1], [FARTHEST]])
        ends = self.end[self.first[1:] - 1]
        cumulated = np.interp(ends - SHIFTS[:, None], at, below)
        return np.diff(cumulated, prepend=0.0, append=1.0, axis=1).clip(SMALLEST)


@dataclass(frozen=True, eq=False)
class _Model:
    """The log-probability of a row of each bin, given α, β, f1 and f0 of all rows."""

    by_fraction: FloatArray  # (bins, fractions * shifts): of an unlabeled row
    by_shift: FloatArray  # (sets, bins, shifts): of a row of the other sets
    overall: FloatArray  # (sets, bins): of a row of any set, if groups did not differ

    @classmethod
    def from_calibration(cls, calibration: Calibration, bins: Bins) -> _Model:
        f1, f0 = map(bins.shifted, class_densities(calibration))
        fraction, beta = expit(LOGITS)[:, None], calibration.shares.beta
        mixed = f1.T[:, None, :] * fraction + f0.T[:, None, :] * (1 - fraction)
        others = np.zeros((3, f1.shape[1], len(SHIFTS)))
        others[LABELED] = np.log(beta * f1 + (1 - beta) * f0).T
        others[NEGATIVE] = np.log(f0).T
        alpha, unmoved = calibration.shares.alpha, len(SHIFTS) // 2
        overall = others[:, :, unmoved].copy()
        overall[UNLABELED] = np.log(alpha * f1[unmoved] + (1 - alpha) * f0[unmoved])
        return cls(np.log(mixed).reshape(len(mixed), -1), others, overall)

    def likelihoods(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Likelihoods of the counts of groups.

        Parameters
        ----------
        counts : shape (groups, sets, bins)

        Returns
        -------
        likelihood : shape (groups, fractions, shifts)
            Divided by its largest value in each group.
        top : shape (groups,)
            The logarithm of that value.
        """
        logs = (counts[:, UNLABELED] @ self.by_fraction).reshape(len(counts), len(LOGITS), -1)
        for code in (LABELED, NEGATIVE):
            logs += (counts[:, code] @ self.by_shift[code])[:, None, :]
        top = logs.max((1, 2))
        return np.exp(logs - top[:, None, None]), top


@cache
def _fraction_priors() -> FloatArray:
    """Beta distributions of the fraction on LOGITS, shape (fractions, priors).

    All have one mode. If 0 could be the likeliest fraction of all, groups that are nearly alike
    would pass for f0 itself, without positives.
    """
    logits, sizes = np.meshgrid(np.linspace(-6, 4, 41), 2.0 ** np.arange(-1, 9.1, 0.5))
    mean, size = expit(logits.ravel()), sizes.ravel()
    log_p, log_rest = -np.log1p(np.exp(-LOGITS)), -np.log1p(np.exp(LOGITS))
    first, second = np.maximum(mean * size, 1.0), np.maximum((1 - mean) * size, 1.0)
    density = np.outer(log_p, first) + np.outer(log_rest, second)
    chance = np.exp(density - density.max(0))
    return np.asarray(chance / chance.sum(0) * (1 - UNLIKE) + UNLIKE / len(LOGITS))


@cache
def _shift_priors() -> FloatArray:
    """Normal distributions of the shift on SHIFTS, shape (spreads, shifts)."""
    spread = np.maximum(SPREADS, SMALLEST)[:, None]
    chance = np.exp(-0.5 * (SHIFTS / spread) ** 2)
    return np.asarray(chance / chance.sum(1, keepdims=True) * (1 - UNLIKE) + UNLIKE / len(SHIFTS))


Prior = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class _Fit:
    """The priors of fractions and shifts, weighted by the counts of groups."""

    # for each spread: shifts (shifts,), priors of the fraction (fractions, n), their weights (n,)
    likely: list[Prior]
    evidence: float  # the log-likelihood of the counts beyond that of all groups together

    @classmethod
    def from_counts(cls, model: _Model, counts: IntArray) -> _Fit:
        log_weights = np.zeros((len(SPREADS), _fraction_priors().shape[1]))
        total = -float((counts.sum(0) * model.overall).sum())
        for some in _blocks(len(counts)):
            likelihood, top = model.likelihoods(counts[some])
            total += float(top.sum())
            for i, shifts in enumerate(_shift_priors()):
                log_weights[i] += np.log((likelihood @ shifts) @ _fraction_priors()).sum(0)
        best = log_weights.max()
        relative = np.exp(log_weights - best)
        weights = relative / relative.sum()
        enough = weights >= NEGLIGIBLE * weights.max()
        likely = [
            (shifts, _fraction_priors()[:, keep], weight[keep])
            for shifts, weight, keep in zip(_shift_priors(), weights, enough, strict=True)
            if keep.any()
        ]
        return cls(likely, total + best + float(np.log(relative.mean())))

    def joint(self, likelihood: FloatArray) -> FloatArray:
        """The joint posterior of fractions and shifts, shape as the likelihood's."""
        chance = np.zeros_like(likelihood)
        for shifts, priors, weights in self.likely:
            by_fraction = likelihood @ shifts
            prior = (weights / (by_fraction @ priors)) @ priors.T
            chance += likelihood * prior[:, :, None] * shifts
        return np.asarray(chance / chance.sum((1, 2), keepdims=True))


@dataclass(frozen=True, eq=False)
class PooledShares:
    """The estimates of groups, arrays of shape (groups,)."""

    alpha: FloatArray
    alpha_low: FloatArray  # with alpha_high a 95% interval
    alpha_high: FloatArray
    shift: FloatArray  # of the scores of a group, on the scale of Bins.position


def pool(calibration: Calibration, bins: Bins, counts: IntArray) -> PooledShares:
    """Estimate the fraction of positives and the shift of each group.

    Parameters
    ----------
    calibration : Calibration
        Of all rows.
    bins : Bins
    counts : shape (groups, sets, bins)
        The first group has the rows without a group; the others do not learn from it.
    """
    models = [_Model.from_calibration(copy, bins) for copy in _copies(calibration)]
    learn = counts[1:]
    learn = learn[:: -(-len(learn) // FITTED)] if len(learn) else learn
    fits = [_Fit.from_counts(model, learn) for model in models]
    evidence = TEMPER * np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    chance, shift = np.zeros((len(counts), len(LOGITS))), np.zeros(len(counts))
    weights[weights < NEGLIGIBLE] = 0
    for weight, model, fit in zip(weights / weights.sum(), models, fits, strict=True):
        for some in _blocks(len(counts)) if weight else ():
            joint = weight * fit.joint(model.likelihoods(counts[some])[0])
            chance[some] += joint.sum(2)
            shift[some] += joint.sum(1) @ SHIFTS
    low, high = (_quantile(chance, level) for level in (0.025, 0.975))
    return PooledShares(chance @ expit(LOGITS), low, high, shift)


def _copies(calibration: Calibration) -> Sequence[Calibration]:
    """The calibration for several of the likely pairs of α and β of all rows."""
    if not calibration.shares.draws:
        return [calibration]
    several = spread(calibration.shares, COPIES)
    copies = [calibrate(calibration.sketch, one, calibration.smooth) for one in several]
    return [copy for copy in copies if copy.informative] or [calibration]


def _quantile(chance: FloatArray, level: float) -> FloatArray:
    """A quantile of the fraction of each group, shape (groups,)."""
    return expit(np.array([np.interp(level, row, LOGITS) for row in mid_ranks(chance)]))


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, rows, AT_ONCE))
