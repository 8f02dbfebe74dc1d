"""Scores and shares to p(Y=1|x): the paper's equation on a calibrated p(S=1|x), bounded.

One-sided 95 % bounds on the posterior and the likelihood ratio at a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..errors import UsageError
from ..notices import Notice
from ..numerics import (
    FloatArray,
    IntArray,
    bin_starts,
    expit,
    isotonic,
    logit,
    mid_ranks,
    odds,
    smooth_logit,
)
from ..prior.base import SMALLEST, Shares
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE

MEAN_TOLERANCE = 0.005
REPLICATES = 100
AVERAGED = 20  # of the likely pairs of α and β, over which posteriors are averaged


# What is taken for granted of p(Y=1|x) as a function of the score, see _isotonic
LOGITS = np.linspace(-12, 12, 321)  # the values that p may take
RISES = 1.5  # how many rises to expect as the logit of the rank grows by 1
RISE = 0.5  # the median rise, in logits
FALL = 1e-12  # the probability of a step to anywhere, lest very many rows rule out every path
BINS = 100  # of equal numbers of rows, and towards both ends ...
BIN_GROWTH = 0.2  # ... smaller ones, by a fifth of the rows that they are nearer to the end


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a score says, for each cell of the sketch; all arrays have shape (cells,)."""

    sketch: Sketch
    shares: Shares
    posterior: FloatArray  # p(Y=1|x) of an unlabeled row
    tau: FloatArray  # p(S=1|x), S=1 being labeled
    lr: FloatArray  # f1/f0
    posterior_labeled: FloatArray  # p(Y=1|x) of a labeled row
    notices: tuple[Notice, ...] = ()

    @property
    def fdr(self) -> FloatArray:
        """The expected share of negatives among unlabeled rows scored at least as high."""
        return _false_discovery_rate(self.posterior, self.population)

    @property
    def population(self) -> FloatArray | IntArray:
        """The unlabeled rows of each cell, shape (cells,), or what stands for them.

        Where there are none, labeled rows and known negatives mixed so that α are positive.
        """
        return _population(self.sketch, self.shares)


def calibrate(sketch: Sketch, shares: Shares, calibrator: str = "isotonic") -> Calibration:
    """The posterior for each score, in [0, 1] and non-decreasing in it by construction.

    Where α and β are uncertain it is the mean over what they may be: a row that would be positive
    for sure if α were as estimated is not for sure if α may be half of that.
    """
    if shares.labeled_negatives:
        found = calibrate(sketch.mirrored(), shares.of_labeled_class(), calibrator)
        return _turned(found, sketch, shares)
    (plain,) = _calibrated(sketch, [shares], calibrator)
    if not shares.draws or plain.notices:
        return plain
    copies = list(_calibrated(sketch, shares.spread(AVERAGED), calibrator))
    p = np.mean([copy.posterior for copy in copies], axis=0)
    ours = np.mean([copy.posterior_labeled for copy in copies], axis=0)
    p, _ = _posterior(plain.population, shares.alpha, shares.of_these_rows, _by_odds(p))
    ours, _ = _posterior(sketch.labeled, shares.beta, shares.of_these_rows, _by_odds(ours))
    lr = odds(p) * (1 - shares.alpha) / shares.alpha
    return replace(plain, posterior=p, lr=lr, posterior_labeled=ours)


def _calibrated(
    sketch: Sketch, several: Sequence[Shares], calibrator: str
) -> Iterator[Calibration]:
    """The calibration for each of several α and β, as if they were certain.

    By the paper's equation the posterior is linear in ρ = g/f, 0 at (1-β)/(1-α) and 1 at β/α. Where
    the shares were estimated from these rows, its odds (Platt: ρ) are scaled so that it averages to
    α over the unlabeled rows, and the odds of labeled rows so that theirs averages to β.
    """
    telling = [shares for shares in several if shares.tell]
    scaled = iter(CALIBRATORS[calibrator](sketch, telling) if telling else ())
    for shares in several:
        alpha, beta, notices = shares.alpha, shares.beta, list[Notice]()
        if beta - alpha < SMALLEST:
            message = f"beta {beta:.4g} is not above alpha {alpha:.4g}: every posterior is alpha"
            notices.append(Notice("beta-not-above-alpha", message))
        if not shares.tell:
            p, lr = np.full(len(sketch.edges), float(alpha)), np.ones(len(sketch.edges))
            rho = lr
        else:
            low, high = _ratio_range(shares)
            rows = _population(sketch, shares)
            p, mean = _posterior(rows, alpha, shares.of_these_rows, next(scaled))
            rho = low * (1 - p) + high * p
            lr = odds(p) * (1 - alpha) / alpha
            if abs(mean - alpha) > MEAN_TOLERANCE:
                notices.append(mean_off(mean, alpha, bool(sketch.n_unlabeled)))
        yield Calibration(
            sketch,
            shares,
            posterior=p,
            tau=sketch.n_labeled * rho / (sketch.n_unlabeled + sketch.n_labeled * rho),
            lr=lr,
            posterior_labeled=_posterior_labeled(sketch, shares, lr),
            notices=tuple(notices),
        )


def _turned(found: Calibration, sketch: Sketch, shares: Shares) -> Calibration:
    """A calibration for the class of the labeled rows, which are negatives, turned round."""
    notices = found.notices
    if any(notice.code == "beta-not-above-alpha" for notice in notices):
        notices = (
            Notice(
                "beta-not-above-alpha",
                "the labeled rows are no richer in negatives than the others",
            ),
        )
    elif notices:
        notices = (mean_off(1 - _mean(found.posterior, found.population), shares.alpha),)
    with np.errstate(divide="ignore"):
        lr = 1 / found.lr[::-1]
    return Calibration(
        sketch,
        shares,
        posterior=1 - found.posterior[::-1],
        tau=found.tau[::-1],
        lr=lr,
        posterior_labeled=1 - found.posterior_labeled[::-1],
        notices=notices,
    )


def _population(sketch: Sketch, shares: Shares) -> FloatArray | IntArray:
    if sketch.n_unlabeled or not sketch.n_negative:
        return sketch.unlabeled
    of_labeled = min(shares.alpha / shares.beta, 1.0) if shares.beta > 0 else 1.0
    labeled = of_labeled * sketch.labeled / sketch.n_labeled
    return np.asarray(labeled + (1 - of_labeled) * sketch.negative / sketch.n_negative)


def mean_off(mean: float, alpha: float, unlabeled: bool = True) -> Notice:
    """The warning that posteriors do not average to α, over unlabeled rows or what is for them."""
    rows = "unlabeled rows" if unlabeled else "population"
    return Notice(
        "posterior-mean-off",
        f"the posterior averages to {mean:.4f} over the {rows}, not to alpha {alpha:.4f}: "
        "the scores do not agree with it",
    )


def _posterior(
    counts: FloatArray | IntArray,
    share: float,
    to_scale: bool,
    scaled: Callable[[float], FloatArray],
) -> tuple[FloatArray, float]:
    """The posterior of each cell and its mean over rows, scaled so that it is the share's."""
    scale = scale_of(counts, share, scaled) if to_scale else 1.0
    p = scaled(scale)
    return np.maximum.accumulate(p), _mean(p, counts)


def scale_of(
    counts: FloatArray | IntArray, share: float, scaled: Callable[[float], FloatArray]
) -> float:
    """The scale at which a posterior, as a function of it, has the share as its mean over rows."""
    return _solve(lambda scale: _mean(scaled(scale), counts), share)


def _by_odds(p: FloatArray) -> Callable[[float], FloatArray]:
    """A posterior as a function of the scale of its odds."""
    logits = logit(p)
    return lambda scale: expit(logits + np.log(scale))


def _ratio_range(shares: Shares) -> tuple[float, float]:
    """g/f where all rows are negative, and where all are positive."""
    return (1 - shares.beta) / (1 - shares.alpha), shares.beta / shares.alpha


@dataclass(frozen=True, eq=False)
class Chain:
    """How probable each logit of p is in each bin of the score, for several α and β."""

    chance: FloatArray  # (bins, copies, levels), of LOGITS
    rows: IntArray  # (bins,)
    place: FloatArray  # (bins,): the logit of the rank of the bin's middle
    at: FloatArray  # (cells,): that of the cell's

    def by_cell(self, values: FloatArray) -> FloatArray:
        """Values of the bins, shape (bins,), between which cells lie, shape (cells,)."""
        return np.interp(self.at, self.place, values)

    def expected(self) -> list[Callable[[float], FloatArray]]:
        """The mean p of each cell for each α and β, as a function of the scale of its odds."""

        def scaled(p: FloatArray) -> Callable[[float], FloatArray]:
            p, _ = isotonic(p, self.rows)  # it decreases only where many rows insist on it
            logits = self.by_cell(np.log(odds(p)))
            return lambda scale: expit(logits + np.log(scale))

        return [scaled(p) for p in (self.chance * expit(LOGITS)).sum(-1).T]


def chain(sketch: Sketch, several: Sequence[Shares]) -> Chain:
    """All non-decreasing p, weighted by how likely they make the counts.

    Before any count is seen, p rises by jumps: RISES of them as the logit of the rank grows by 1,
    each by more than d logits with a probability of about RISE / (RISE + d), so that both smooth
    and abrupt rises are expected.
    """
    total = sketch.counts.sum(1)
    starts = _bins(total)
    rows = np.add.reduceat(total, starts)
    place = _logit_rank(rows)
    log_likelihood = _log_likelihood(np.add.reduceat(sketch.counts, starts), sketch, several)
    chance = _paths(log_likelihood, RISES * np.diff(place))
    return Chain(chance, rows, place, _logit_rank(total))


def _isotonic(sketch: Sketch, several: Sequence[Shares]) -> list[Callable[[float], FloatArray]]:
    """The expected non-decreasing p given the counts, as a function of the scale of its odds.

    The likeliest non-decreasing p, isotonic regression, is too high at the top: a few labeled rows
    that happen to come last make a block of their own. This is the mean over all of them.
    """
    return chain(sketch, several).expected()


def _log_likelihood(counts: IntArray, sketch: Sketch, several: Sequence[Shares]) -> FloatArray:
    """Of the rows of each set in each bin if p is each of LOGITS, shape (bins, several, levels).

    For counts of shape (bins, 3). For each unlabeled row there are, at p, so many times
    (low + (high - low) p) labeled rows, and (1-p) / (1-α) negatives, as there are in all.
    """
    p, unit = expit(LOGITS), sketch.n_unlabeled or 1
    low, high = (ends[:, None] for ends in np.transpose([_ratio_range(one) for one in several]))
    ratio = sketch.n_labeled / unit * (low + (high - low) * p)
    log_likelihood = np.multiply.outer(counts[:, LABELED], np.log(ratio))
    if sketch.n_negative:
        share = np.array([[1 - one.alpha] for one in several])
        of_negatives = sketch.n_negative / unit * (1 - p) / share
        log_likelihood += np.multiply.outer(counts[:, NEGATIVE], np.log(of_negatives))
        ratio = ratio + of_negatives
    whole = np.log1p(ratio) if sketch.n_unlabeled else np.log(ratio)
    log_likelihood -= np.multiply.outer(counts.sum(1), whole)
    return np.asarray(log_likelihood)


def _bins(rows: IntArray) -> IntArray:
    """The first cell of each bin, for the rows in each cell.

    Bins are small at both ends, where p changes most, but hold half the square root of all rows:
    fewer would leave p at the very top to what was expected beforehand.
    """
    rank, n = mid_ranks(rows), rows.sum()
    least = np.sqrt(n) / 2
    most = max(n / BINS, least)

    def bins_within(distance: FloatArray) -> FloatArray:
        """How many bins there are within a number of rows from an end."""
        growing = np.minimum(distance, (most - least) / BIN_GROWTH)
        bins = np.log1p(BIN_GROWTH * growing / least) / BIN_GROWTH + (distance - growing) / most
        return np.asarray(bins)

    from_end = bins_within(np.minimum(rank, n - rank))
    place = np.where(rank <= n / 2, from_end, 2 * bins_within(n / 2) - from_end)
    return bin_starts(place)


def _paths(log_likelihood: FloatArray, rises: FloatArray) -> FloatArray:
    """The probability of each level in each bin, all paths considered, shape as log_likelihood's.

    log_likelihood has shape (bins, copies, levels), for copies that are worked on side by side;
    rises, the number of rises to expect from each bin to the next, has shape (bins - 1,).
    Forward-backward: what the bins below say, what those above do.
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(-1, keepdims=True))
    rise = _rise()
    stays = np.exp(-rises)

    def step(state: FloatArray, stay: float, rise: FloatArray) -> FloatArray:
        fallen = FALL * state.mean(-1, keepdims=True)
        return np.asarray(stay * state + (1 - stay) * (state @ rise) + fallen)

    forward, backward = np.empty_like(likelihood), np.ones_like(likelihood)
    forward[0] = likelihood[0] / likelihood[0].sum(-1, keepdims=True)
    for i in range(1, len(likelihood)):
        state = step(forward[i - 1], stays[i - 1], rise) * likelihood[i]
        forward[i] = state / state.sum(-1, keepdims=True)
    for i in range(len(likelihood) - 1, 0, -1):
        state = step(backward[i] * likelihood[i], stays[i - 1], rise.T)
        backward[i - 1] = state / state.max(-1, keepdims=True)
    both = forward * backward
    return np.asarray(both / both.sum(-1, keepdims=True))


@cache
def _rise() -> FloatArray:
    """The probabilities of rises from each level to each other, shape (levels, levels)."""
    by = LOGITS - LOGITS[:, None]
    chance = np.where(by > 0, (RISE + by.clip(0)) ** -2, 0.0)
    chance[-1, -1] = 1  # there is no higher level
    return np.asarray(chance / chance.sum(1, keepdims=True))


def _platt(sketch: Sketch, several: Sequence[Shares]) -> list[Callable[[float], FloatArray]]:
    """p by a logistic regression of S on the score (on its logit where it is a share).

    It is a function of the scale of g/f.
    """
    if not sketch.n_unlabeled:
        raise UsageError("--calibrator platt needs unlabeled rows")
    total = sketch.labeled + sketch.unlabeled
    x = sketch.scores
    if x[0] >= 0 and x[-1] <= 1:
        x = x.clip(1e-9, 1 - 1e-9)
        x = np.log(x / (1 - x))
    x = np.ldexp(x, -np.frexp(np.abs(x).max())[1])  # exact, and squares of it are finite
    x = x - _mean(x, total)
    x /= max(np.sqrt(_mean(x**2, total)), np.finfo(float).tiny)
    design = np.column_stack([x, np.ones(len(x))])
    theta = np.array([0.0, np.log(sketch.n_labeled / sketch.n_unlabeled)])
    for _ in range(50):  # Newton's steps, kept short
        p = 1 / (1 + np.exp(-(design @ theta).clip(-30, 30)))
        gradient = design.T @ (sketch.labeled - total * p)
        curvature = (design.T * (total * p * (1 - p))) @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient).clip(-2, 2)
        theta += step
        if np.abs(step).max() < 1e-10:
            break
    slope, intercept = max(theta[0], 0.0), theta[1]
    ratio = np.exp((slope * x + intercept).clip(-30, 30)) * sketch.n_unlabeled / sketch.n_labeled

    def scaled(shares: Shares) -> Callable[[float], FloatArray]:
        low, high = _ratio_range(shares)
        return lambda scale: ((scale * ratio - low) / (high - low)).clip(0, 1)

    return [scaled(shares) for shares in several]


def _spline(sketch: Sketch, several: Sequence[Shares]) -> list[Callable[[float], FloatArray]]:
    """p by a smooth curve of S over the rank of the score, as a function of the scale of its odds.

    With many labeled rows it is a little nearer to the truth than the mean over all curves.
    """
    if not sketch.n_unlabeled:
        raise UsageError("--calibrator spline needs unlabeled rows")
    fitted = smooth_logit(sketch.labeled, sketch.labeled + sketch.unlabeled)
    ratio = np.exp(np.maximum.accumulate(fitted)) * sketch.n_unlabeled / sketch.n_labeled

    def scaled(shares: Shares) -> Callable[[float], FloatArray]:
        low, high = _ratio_range(shares)
        limits = expit(LOGITS[[0, -1]])
        return _by_odds(((ratio - low) / (high - low)).clip(*limits))

    return [scaled(shares) for shares in several]


CALIBRATORS = {"isotonic": _isotonic, "platt": _platt, "spline": _spline}
DEFAULT_CALIBRATOR = "isotonic"


def _posterior_labeled(sketch: Sketch, shares: Shares, lr: FloatArray) -> FloatArray:
    """p(Y=1|x, labeled): the odds are β/(1-β) times the likelihood ratio."""
    if shares.beta > 1 - SMALLEST:
        return np.ones(len(lr))

    def posterior(scale: float) -> FloatArray:
        scaled = scale * shares.beta / (1 - shares.beta) * lr
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(scaled), 1.0, scaled / (1 + scaled))

    if not shares.of_these_rows:
        return posterior(1.0)
    return posterior(_solve(lambda s: _mean(posterior(s), sketch.labeled), shares.beta))


def _false_discovery_rate(p: FloatArray, unlabeled: FloatArray | IntArray) -> FloatArray:
    """The mean of 1-p over unlabeled rows from each cell up; above them all, 1-p itself."""
    rows = np.cumsum(unlabeled[::-1])[::-1]
    negatives = np.cumsum((unlabeled * (1 - p))[::-1])[::-1]
    return np.where(rows > 0, negatives / np.where(rows > 0, rows, 1), 1 - p)


def posterior_at(lr: FloatArray, alpha: float | FloatArray) -> FloatArray:
    """p(Y=1|x) in a population with a share of α positives, from the likelihood ratio (Bayes)."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(lr), 1.0, alpha * lr / (alpha * lr + 1 - alpha))


def shift_prior(calibration: Calibration, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Posterior and fdr in a population with another α, in which f1 and f0 are the same.

    A row stands for as many rows of the other population as it is more frequent there.
    """
    lr, old = calibration.lr, calibration.shares.alpha
    certain = np.isinf(lr)
    finite = np.where(certain, 1.0, lr)
    density = alpha * finite + 1 - alpha  # in units of f0
    weight = np.where(certain, alpha / max(old, SMALLEST), density / (old * finite + 1 - old))
    shifted = posterior_at(lr, alpha)
    return shifted, _false_discovery_rate(shifted, calibration.population * weight)


def replicates(
    calibration: Calibration, calibrator: str, seed: int, count: int = REPLICATES
) -> list[Calibration]:
    """Calibrations of bootstrap samples of the rows, each with another of the likely α and β."""
    rng = np.random.default_rng([seed, 2])
    copies = calibration.shares.spread(count)
    return [calibrate(calibration.sketch.resample(rng), copy, calibrator) for copy in copies]


def _logit_rank(counts: IntArray) -> FloatArray:
    rank = mid_ranks(counts)
    return np.asarray(np.log(rank / (counts.sum() - rank)))


def _mean(values: FloatArray, counts: FloatArray | IntArray) -> float:
    return float(values @ counts / counts.sum())


def _solve(mean: Callable[[float], float], target: float) -> float:
    """The scale at which a non-decreasing mean comes nearest to its target, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        if mean(2.0**middle) < target:
            low = middle
        else:
            high = middle
    return min((2.0**low, 2.0**high), key=lambda scale: abs(mean(scale) - target))
