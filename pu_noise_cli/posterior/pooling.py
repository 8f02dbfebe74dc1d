"""The fraction of positives of each of many groups, by partial pooling.

All groups share f1 and f0, up to a shift of all scores of a group and a contrast, by which its
positives score higher and its negatives lower still. Fractions come from one Beta distribution,
shifts and contrasts from normal distributions, all unknown. Estimates average over these
distributions, weighted by the likelihood of the counts: a group of 20 rows borrows from all others,
a group of 2,000 hardly does. Where groups have contrasts, scores alone do not show whether a group
has many positives or high-scoring negatives: its fraction is uncertain, and leans on the others'.

Groups are compared with the whole, not with f1 and f0 as such: the whole is estimated as if it were
a group, and a group has the difference. So a misfit of f1 and f0 is not taken for a difference of
groups, and a single group has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from ..numerics import FloatArray, IntArray, expit, logit, move_odds, relative_mid_ranks
from ..prior.base import SMALLEST
from ..tables.rows import LABELED, NEGATIVE, UNLABELED
from .calibration import Calibration, class_densities, scale_to_mean

MAX_BINS = 64
MAX_LOG_LR = 7.0  # bins do not distinguish log likelihood ratios beyond it
LOGITS = np.linspace(-9, 6, 61)  # of the fraction of positives of a group
# shifts of the scores of a group, on the scale on which all scores are standard normal
SHIFTS = np.linspace(-1.2, 1.2, 13)
CONTRASTS = np.linspace(-0.6, 0.6, 7)  # further ones, up for positives and down for negatives
FARTHEST = 8.0  # from 0, on that scale, that any score is
# standard deviations, over groups, of shifts and contrasts
SPREADS = tuple(product((0.0, 0.1, 0.2, 0.35, 0.5), (0.0, 0.12, 0.25)))
# the fraction of a group's shift by which posteriors move: mostly negatives show it, and positives
# follow them in part only (benchmarks/notes/2026-11-18-groups-of-real-genes.md)
FOLLOWED = 0.5
LEAST_WITHIN = 0.3  # the least fraction of the variance of scores that is within groups
# both of each of the moves that a group's scores may have made
SHIFT, CONTRAST = (grid.ravel() for grid in np.meshgrid(SHIFTS, CONTRASTS, indexing="ij"))
UNLIKE = 1e-6  # the probability that a group is unlike all others
FITTED = 1000  # groups, at most, from which the distributions of fractions and shifts are learned
NEGLIGIBLE = 1e-3  # a weight, relative to the largest
DIGITS = 9  # of differences: sums of equal numbers in another order differ beyond them
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

    def moved_masses(self, masses: FloatArray, by: FloatArray, between: float) -> FloatArray:
        """The masses of the bins within a group after each shift, shape (shifts, bins).

        The masses of the cells are of all groups, so that part of their variance, `between`, is of
        the shifts of groups.
        """
        below = np.concatenate([[0.0], np.cumsum(masses[:-1]) / masses.sum(), [1.0]])
        at = np.concatenate([[-FARTHEST], self.end[:-1], [FARTHEST]])
        mean = float(np.average(self.position, weights=masses))
        variance = float(np.average((self.position - mean) ** 2, weights=masses))
        narrow = np.sqrt(max(1 - between / max(variance, SMALLEST), LEAST_WITHIN))
        ends = self.end[self.first[1:] - 1] - mean
        cumulated = np.interp(mean + (ends - by[:, None]) / narrow, at, below)
        masses = np.diff(cumulated, prepend=0.0, append=1.0, axis=1)
        return np.asarray(masses.clip(SMALLEST))


@dataclass(frozen=True, eq=False)
class _Model:
    """The log-probability of a row of each bin, given α, β, f1 and f0 of all rows, and a spread."""

    by_fraction: FloatArray  # (bins, fractions * moves): of an unlabeled row
    by_move: FloatArray  # (sets, bins, moves): of a row of the other sets
    moves: FloatArray  # (moves,): their probabilities

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, bins: Bins, shift: float, contrast: float
    ) -> _Model:
        """The model in which shifts and contrasts of groups have these standard deviations."""
        between, densities = shift**2 + contrast**2, class_densities(calibration)
        f1, f0 = (
            bins.moved_masses(density, by, between).T
            for density, by in zip(densities, (SHIFT + CONTRAST, SHIFT - CONTRAST), strict=True)
        )
        fraction, beta = expit(LOGITS)[:, None], calibration.shares.beta
        mixed = f1[:, None, :] * fraction + f0[:, None, :] * (1 - fraction)
        others = np.zeros((3, *f1.shape))
        others[LABELED] = np.log(beta * f1 + (1 - beta) * f0)
        others[NEGATIVE] = np.log(f0)
        square = (SHIFT / max(shift, SMALLEST)) ** 2 + (CONTRAST / max(contrast, SMALLEST)) ** 2
        moves = np.exp(-0.5 * square)
        moves = moves / moves.sum() * (1 - UNLIKE) + UNLIKE / len(moves)
        return cls(np.log(mixed).reshape(len(mixed), -1), others, moves)

    def likelihoods(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Likelihoods of the counts of groups, over the largest of each, and its logarithm.

        Parameters
        ----------
        counts : shape (groups, sets, bins)

        Returns
        -------
        shapes (groups, fractions, moves) and (groups,)
        """
        logs = (counts[:, UNLABELED] @ self.by_fraction).reshape(len(counts), len(LOGITS), -1)
        for code in (LABELED, NEGATIVE):
            logs += (counts[:, code] @ self.by_move[code])[:, None, :]
        largest = logs.max((1, 2), keepdims=True)
        return np.exp(logs - largest), largest.ravel()


@cache
def _fraction_priors() -> FloatArray:
    """Beta distributions of the fraction on LOGITS, shape (fractions, priors).

    All have one mode. If 0 could be the likeliest fraction of all, groups that are nearly alike
    would pass for f0 itself, without positives.
    """
    logits, sizes = np.meshgrid(np.linspace(-6, 4, 21), 2.0 ** np.arange(-1, 12.1))
    mean, size = expit(logits.ravel()), sizes.ravel()
    log_p, log_rest = -np.log1p(np.exp(-LOGITS)), -np.log1p(np.exp(LOGITS))
    first, second = np.maximum(mean * size, 1.0), np.maximum((1 - mean) * size, 1.0)
    density = np.outer(log_p, first) + np.outer(log_rest, second)
    chance = np.exp(density - density.max(0))
    return np.asarray(chance / chance.sum(0) * (1 - UNLIKE) + UNLIKE / len(LOGITS))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The spreads and the priors of fractions, weighted by the counts of groups."""

    # for each spread: the model, priors of the fraction (fractions, n), their weights (n,)
    likely: list[tuple[_Model, FloatArray, FloatArray]]

    @classmethod
    def from_counts(cls, calibration: Calibration, bins: Bins, counts: IntArray) -> _Fit:
        priors = _fraction_priors()
        models = [_Model.from_calibration(calibration, bins, *spread) for spread in SPREADS]
        log_weights = np.zeros((len(models), priors.shape[1]))
        for model, logs in zip(models, log_weights, strict=True):
            for some in _blocks(len(counts)):
                likelihood, largest = model.likelihoods(counts[some])
                logs += np.log((likelihood @ model.moves) @ priors).sum(0) + largest.sum()
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        enough = weights >= NEGLIGIBLE * weights.max()
        likely = [
            (model, priors[:, keep], weight[keep])
            for model, weight, keep in zip(models, weights, enough, strict=True)
            if keep.any()
        ]
        return cls(likely)

    def differences(self, counts: IntArray) -> FloatArray:
        """How groups differ from the last one, shape (4, groups - 1).

        The difference of the log-odds of the mean fractions, the variance of a group's log-odds,
        the difference of the mean shifts, and the variance of a group's shift relative to that of
        a group without rows.
        """
        unseen = sum(weights.sum() * (model.moves @ SHIFT**2) for model, _, weights in self.likely)
        parts = []
        for some in _blocks(len(counts)):
            joint = self._joint(counts[some])
            chance = joint.sum(2)
            variance, moves = chance @ LOGITS**2 - (chance @ LOGITS) ** 2, joint.sum(1)
            left = (moves @ SHIFT**2 - (moves @ SHIFT) ** 2) / unseen
            parts.append([logit(chance @ expit(LOGITS)), variance, moves @ SHIFT, left])
        log_odds, variance, shift, left = np.concatenate(parts, axis=1)
        return np.array([log_odds - log_odds[-1], variance, shift - shift[-1], left])[:, :-1]

    def _joint(self, counts: IntArray) -> FloatArray:
        """The joint posterior of fractions and moves, shape (groups, fractions, moves)."""
        chance = np.zeros((len(counts), len(LOGITS), len(SHIFT)))
        for model, priors, weights in self.likely:
            likelihood, _ = model.likelihoods(counts)
            by_fraction = likelihood @ model.moves
            prior = (weights / (by_fraction @ priors)) @ priors.T
            chance += likelihood * prior[:, :, None] * model.moves
        return np.asarray(chance / chance.sum((1, 2), keepdims=True))


@dataclass(frozen=True, eq=False)
class PooledShares:
    """The estimates of groups, arrays of shape (groups,)."""

    alpha: FloatArray  # of the unlabeled rows: the mean of their posteriors
    alpha_low: FloatArray  # with alpha_high a 95% interval
    alpha_high: FloatArray
    log_odds: FloatArray  # of a row, beyond those of a row of the whole with the same score
    log_odds_error: FloatArray  # the standard error
    shift: FloatArray  # of posteriors against the whole's, on the scale of Bins.position
    shrinkage: (
        FloatArray  # of the shift: 0 if it rests on the group's own rows, 1 if on the others'
    )
    p_typical: FloatArray  # p-values of the group's scores if it shares f1 and f0 with the whole


def pool(calibration: Calibration, bins: Bins, counts: IntArray) -> PooledShares:
    """Estimate how the fraction of positives and the scores of each group differ from the whole's.

    Parameters
    ----------
    calibration : Calibration
        Of all rows.
    bins : Bins
    counts : shape (groups, sets, bins)
        The first group has the rows without a group; the others do not learn from it.
    """
    learn = counts[1:]
    learn = learn[:: -(-len(learn) // FITTED)] if len(learn) else learn
    every = np.concatenate([counts, counts.sum(0, keepdims=True)])
    fit = _Fit.from_counts(calibration, bins, learn)
    log_odds, variance, shift, shrinkage = fit.differences(every)
    # neither the last digits of sums nor -0
    shift, shrinkage = (shift * FOLLOWED).round(DIGITS) + 0.0, shrinkage.clip(0, 1).round(DIGITS)
    p_typical = _p_typical(_Model.from_calibration(calibration, bins, 0.0, 0.0), every)
    unlabeled = counts[:, UNLABELED]
    if not unlabeled.any():  # all groups have the fraction that is stated
        none, alpha = np.zeros_like(shift), np.full_like(shift, calibration.shares.alpha)
        return PooledShares(alpha, alpha, alpha, none, none, shift, shrinkage, p_typical)
    share = unlabeled.sum(1) / unlabeled.sum()
    # a group is part of the whole that it is compared with
    error = np.sqrt(((1 - 2 * share) * variance + share**2 @ variance).round(DIGITS).clip(0))
    rows = _GroupRows.from_calibration(calibration, bins, unlabeled, shift)
    log_odds += rows.center(log_odds)
    log_odds = log_odds.round(DIGITS) + 0.0
    alpha, low, high = rows.fractions(log_odds, error)
    return PooledShares(alpha, low, high, log_odds, error, shift, shrinkage, p_typical)


def _p_typical(model: _Model, counts: IntArray) -> FloatArray:
    """How well all groups but the last, the whole, fit without a move, shape (groups - 1,).

    The likelihood relative to that after the best move, for the best fraction. A move has two
    parts, and a chi-square with two degrees of freedom exceeds -2 log(p) with probability p. Where
    f1 and f0 do not fit the whole, the move that fits it counts as none, too.
    """
    blocks = [model.likelihoods(counts[some])[0].max(1) for some in _blocks(len(counts))]
    relative = np.concatenate(blocks)
    unmoved = [int(np.argmin(SHIFT**2 + CONTRAST**2)), int(relative[-1].argmax())]
    return np.asarray(relative[:-1, unmoved].max(1).round(DIGITS))


@dataclass(frozen=True, eq=False)
class _GroupRows:
    """The unlabeled rows of groups."""

    rows: IntArray  # (groups, bins)
    posterior: FloatArray  # (groups, bins): by the scores and shifts alone
    alpha: float  # of the whole
    variance: float  # of its log-odds
    mean: float  # posterior of the whole

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, bins: Bins, rows: IntArray, shift: FloatArray
    ) -> _GroupRows:
        """The posteriors of the calibration, each group's moved by its shift."""
        weight, cells = calibration.population + SMALLEST, np.arange(len(bins.by_cell))
        moved = [bins.moved(cells, np.full(len(cells), -by)) for by in SHIFTS]
        sums = [np.add.reduceat(weight * calibration.posterior[own], bins.first) for own in moved]
        by_shift = np.array(sums) / np.add.reduceat(weight, bins.first)
        place = np.interp(shift, SHIFTS, np.arange(len(SHIFTS)))
        below = np.minimum(place.astype(int), len(SHIFTS) - 2)
        beyond = (place - below)[:, None]
        posterior = (1 - beyond) * by_shift[below] + beyond * by_shift[below + 1]
        total = rows.sum(0)
        mean = float((total * by_shift[len(SHIFTS) // 2]).sum() / total.sum())
        draws = [alpha for alpha, _ in calibration.shares.draws] or [calibration.shares.alpha]
        variance = float(np.var(logit(np.array(draws).clip(SMALLEST, 1 - SMALLEST))))
        return cls(rows, posterior, calibration.shares.alpha, variance, mean)

    def center(self, log_odds: FloatArray) -> float:
        """What to add to log-odds, shape (groups,), to give all rows the mean of the whole."""

        def scaled(factor: float) -> FloatArray:
            return move_odds(self.posterior, log_odds[:, None] + np.log(factor)).ravel()

        return float(np.log(scale_to_mean(scaled, self.rows.ravel(), self.mean)))

    def fractions(self, log_odds: FloatArray, error: FloatArray) -> FloatArray:
        """Fractions of positives with 95% intervals, shape (3, groups).

        Log-odds, and their standard errors, are differences from the whole, shape (groups,).
        """
        from scipy.special import betaincinv

        p, rows = move_odds(self.posterior, log_odds[:, None]), self.rows.sum(1)
        some, n = rows > 0, np.maximum(rows, 1)
        alpha = self.alpha + ((self.rows * p).sum(1) / n - self.mean)
        alpha = np.where(some, alpha.clip(0, 1), move_odds(np.array(self.alpha), log_odds))
        binary = (alpha * (1 - alpha)).clip(SMALLEST)
        # given the fraction among all rows that might be, those in the group still vary
        open_rows = (self.rows * p * (1 - p)).sum(1) / n
        variance = (open_rows * error) ** 2 + binary**2 * self.variance
        variance += open_rows / n * (1 - rows / rows.sum())
        size = np.maximum(binary / variance.clip(SMALLEST) - 1, SMALLEST)
        ends = [
            betaincinv((alpha * size).clip(SMALLEST), ((1 - alpha) * size).clip(SMALLEST), level)
            for level in (0.025, 0.975)
        ]
        wide = 1.96 * np.sqrt(error**2 + self.variance)
        unseen = [move_odds(alpha, -wide), move_odds(alpha, wide)]
        return np.array([alpha, *np.where(some, ends, unseen)])


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, rows, AT_ONCE))
