"""Scores and fractions of positives to p(Y=1|x), with one-sided 95% bounds.

The paper's equation on a calibrated p(S=1|x); bounds are wider where rows form groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pyarrow as pa

from ..notices import Notice
from ..numerics import (
    GOLDEN_RATIO,
    FloatArray,
    HashArray,
    IntArray,
    Spline,
    bin_starts,
    expit,
    hash_texts,
    isotonic,
    logit,
    mid_ranks,
    odds,
    relative_mid_ranks,
    smooth_logit,
    splitmix64,
)
from ..prior.base import SMALLEST, Shares
from ..scale.engine import Job, RowsDone
from ..score.model import HonestScorer
from ..score.scores import score_chunks
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED, Chunk, Rows, SetArray

MEAN_TOLERANCE = 0.005
REPLICATES = 100
AVERAGED = 20  # likely pairs of α and β over which posteriors are averaged

# The prior distribution of p(Y=1|x) as a function of the score, see `chain`
LOGITS = np.linspace(-12, 12, 321)  # the logits that p may have
RISES = 1.5  # expected number of rises per unit of the logit of the rank
RISE = 0.5  # the median rise, in logits
FALL = 1e-12  # the probability of a step to any level, lest very many rows rule out every path
BINS = 100  # of equal numbers of rows; towards both ends they become smaller ...
BIN_GROWTH = 0.2  # ... by a fifth of the rows between them and the end

Scaled = Callable[[float], FloatArray]  # p of each cell as a function of a factor of its odds


@dataclass(frozen=True, eq=False)
class Calibration:
    """The meaning of a score, for each cell of the sketch; all arrays have shape (cells,)."""

    sketch: Sketch
    shares: Shares
    smooth: bool  # whether p is a smooth function of the score
    informative: bool  # whether the score changes p at all
    posterior: FloatArray  # p(Y=1|x) of an unlabeled row
    tau: FloatArray  # p(S=1|x), S=1 being labeled
    lr: FloatArray  # the likelihood ratio f1/f0
    posterior_labeled: FloatArray  # p(Y=1|x) of a labeled row
    notices: tuple[Notice, ...] = ()
    mirrored: Calibration | None = None  # of labeled negatives: that of the mirrored sketch

    @cached_property
    def population(self) -> FloatArray | IntArray:
        """The unlabeled rows; without any, labeled and negative rows in the ratio of α."""
        return _population(self.sketch, self.shares)

    @cached_property
    def fdr(self) -> FloatArray:
        """The expected fraction of negatives from each cell up."""
        return _false_discovery_rate(self.posterior, self.population)

    @property
    def label_sign(self) -> float:
        """1 if right labels score high, -1 if low."""
        return 1.0 if self.sketch.labeled_class == "positive" else -1.0


def calibrate(
    sketch: Sketch, shares: Shares, smooth: bool = False, start: Sequence[Spline] = ()
) -> Calibration:
    """Calibrate scores: the posterior of each cell, non-decreasing in the score.

    Uncertain α and β are averaged over: a row that is certainly positive at the estimated α is not
    if α may be half of that.

    Parameters
    ----------
    sketch : Sketch
        If its labeled rows are negatives, the classes are exchanged here, and only here.
    shares : Shares
        The fractions of positives among unlabeled and labeled rows.
    smooth : bool
        Fit a penalized spline instead of the mean over all non-decreasing functions. With many
        labeled rows, such as decoys, it is a little more accurate.
    start : Sequence[Spline]
        The splines of similar rows, to start from.
    """
    if sketch.labeled_class == "negative":
        mirrored = calibrate(sketch.mirrored(), _mirror(shares), smooth, start)
        return _exchange_classes(mirrored, sketch, shares)
    (plain,) = _calibrate_each(sketch, [shares], smooth, start)
    if not shares.draws or plain.notices or not plain.informative:
        return plain
    copies = list(_calibrate_each(sketch, spread(shares, AVERAGED), smooth, start))
    p = np.mean([copy.posterior for copy in copies], axis=0)
    labeled_p = np.mean([copy.posterior_labeled for copy in copies], axis=0)
    fit = shares.from_these_rows
    p, _ = _fit_mean(_scaled_odds(logit(p)), plain.population, shares.alpha, fit)
    labeled_p, _ = _fit_mean(_scaled_odds(logit(labeled_p)), sketch.labeled, shares.beta, fit)
    lr = odds(p) * (1 - shares.alpha) / shares.alpha
    return replace(plain, posterior=p, lr=lr, posterior_labeled=labeled_p)


def _calibrate_each(
    sketch: Sketch, several: Sequence[Shares], smooth: bool, start: Sequence[Spline]
) -> Iterator[Calibration]:
    """The calibration for each of several α and β, as if they were certain.

    By the paper's equation the posterior is linear in ρ = g/f, 0 at (1-β)/(1-α) and 1 at β/α. Where
    α and β were estimated from these rows, the odds are scaled such that the posterior averages to
    α over the unlabeled rows, and that of labeled rows to β.
    """
    informative = [shares for shares in several if is_informative(shares)]
    scaled: Iterator[Scaled] = iter(())
    if informative and smooth:
        scaled = iter(_spline(sketch, informative, start))
    elif informative:
        scaled = iter(chain(sketch, informative).expected())
    for shares in several:
        alpha, beta, notices = shares.alpha, shares.beta, list[Notice]()
        if beta - alpha < SMALLEST:
            message = f"beta {beta:.4g} is not above alpha {alpha:.4g}: every posterior is alpha"
            notices.append(Notice("beta-not-above-alpha", message))
        if not is_informative(shares):
            p, lr = np.full(len(sketch.edges), float(alpha)), np.ones(len(sketch.edges))
            rho = lr
        else:
            low, high = _ratio_range(shares)
            rows = _population(sketch, shares)
            p, mean = _fit_mean(next(scaled), rows, alpha, shares.from_these_rows)
            rho = low * (1 - p) + high * p
            lr = odds(p) * (1 - alpha) / alpha
            if abs(mean - alpha) > MEAN_TOLERANCE:
                notices.append(_mean_off(mean, alpha, bool(sketch.n_unlabeled)))
        yield Calibration(
            sketch,
            shares,
            smooth,
            is_informative(shares),
            posterior=p,
            tau=sketch.n_labeled * rho / (sketch.n_unlabeled + sketch.n_labeled * rho),
            lr=lr,
            posterior_labeled=_posterior_labeled(sketch, shares, lr),
            notices=tuple(notices),
        )


def is_informative(shares: Shares) -> bool:
    """Whether a score of labeled positives says more than α does."""
    alpha = shares.alpha
    return min(alpha, 1 - alpha, shares.beta - alpha) >= SMALLEST


def spread(shares: Shares, count: int) -> list[Shares]:
    """Certain α and β, so many, evenly spaced over the ordered draws."""
    at = ((np.arange(count) + 0.5) * len(shares.draws) / count).astype(int)
    pairs = [shares.draws[i] for i in at] if shares.draws else [(shares.alpha, shares.beta)] * count
    return [replace(shares, alpha=alpha, beta=beta, draws=()) for alpha, beta in pairs]


def _mirror(shares: Shares) -> Shares:
    """The fractions of negatives."""
    draws = tuple((1 - alpha, 1 - beta) for alpha, beta in reversed(shares.draws))
    return replace(shares, alpha=1 - shares.alpha, beta=1 - shares.beta, draws=draws)


def _exchange_classes(mirrored: Calibration, sketch: Sketch, shares: Shares) -> Calibration:
    """The calibration of labeled negatives, from that of the mirrored sketch."""
    notices = mirrored.notices
    if any(notice.code == "beta-not-above-alpha" for notice in notices):
        message = "the labeled rows are not richer in negatives than the unlabeled rows"
        notices = (Notice("beta-not-above-alpha", message),)
    elif notices:
        mean = 1 - _mean(mirrored.posterior, mirrored.population)
        notices = (_mean_off(mean, shares.alpha),)
    with np.errstate(divide="ignore"):
        lr = 1 / mirrored.lr[::-1]
    return Calibration(
        sketch,
        shares,
        mirrored.smooth,
        mirrored.informative,
        posterior=1 - mirrored.posterior[::-1],
        tau=mirrored.tau[::-1],
        lr=lr,
        posterior_labeled=1 - mirrored.posterior_labeled[::-1],
        notices=notices,
        mirrored=mirrored,
    )


def _population(sketch: Sketch, shares: Shares) -> FloatArray | IntArray:
    if sketch.n_unlabeled or not sketch.n_negative:
        return sketch.unlabeled
    fraction = min(shares.alpha / shares.beta, 1.0) if shares.beta > 0 else 1.0
    labeled = fraction * sketch.labeled / sketch.n_labeled
    return np.asarray(labeled + (1 - fraction) * sketch.negative / sketch.n_negative)


def _mean_off(mean: float, alpha: float, unlabeled: bool = True) -> Notice:
    rows = "unlabeled rows" if unlabeled else "population"
    return Notice(
        "posterior-mean-off",
        f"the posterior averages to {mean:.4f} over the {rows}, not to alpha {alpha:.4f}: "
        "the scores do not agree with it",
    )


def _ratio_range(shares: Shares) -> tuple[float, float]:
    """g/f where all rows are negative, and where all are positive."""
    return (1 - shares.beta) / (1 - shares.alpha), shares.beta / shares.alpha


# ---- Posteriors scaled to a mean


def _scaled_odds(logits: FloatArray) -> Scaled:
    return lambda scale: expit(logits + np.log(scale))


def _fit_mean(
    scaled: Scaled, rows: FloatArray | IntArray, target: float, to_scale: bool
) -> tuple[FloatArray, float]:
    """The posterior of each cell and its mean over rows, scaled to the target if that is wanted."""
    p = scaled(scale_to_mean(scaled, rows, target) if to_scale else 1.0)
    return np.maximum.accumulate(p), _mean(p, rows)


def scale_to_mean(scaled: Scaled, rows: FloatArray | IntArray, target: float) -> float:
    """The factor at which the mean over rows comes nearest to a target, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        if _mean(scaled(2.0**middle), rows) < target:
            low = middle
        else:
            high = middle
    ends = (2.0**low, 2.0**high)
    return min(ends, key=lambda scale: abs(_mean(scaled(scale), rows) - target))


def _mean(values: FloatArray, rows: FloatArray | IntArray) -> float:
    return float(values @ rows / rows.sum())


def _posterior_labeled(sketch: Sketch, shares: Shares, lr: FloatArray) -> FloatArray:
    """p(Y=1|x, labeled): its odds are β/(1-β) times the likelihood ratio."""
    if shares.beta > 1 - SMALLEST:
        return np.ones(len(lr))

    def scaled(scale: float) -> FloatArray:
        labeled_odds = scale * shares.beta / (1 - shares.beta) * lr
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(labeled_odds), 1.0, labeled_odds / (1 + labeled_odds))

    if not shares.from_these_rows:
        return scaled(1.0)
    return scaled(scale_to_mean(scaled, sketch.labeled, shares.beta))


# ---- p as the mean over all non-decreasing functions of the score


@dataclass(frozen=True, eq=False)
class Chain:
    """The distribution of the logit of p in each bin of the score, for several α and β."""

    chance: FloatArray  # (bins, copies, levels): the probability of each of LOGITS
    rows: IntArray  # (bins,)
    bin_position: FloatArray  # (bins,): the logit of the rank of the bin's middle
    cell_position: FloatArray  # (cells,): that of the cell's

    def by_cell(self, values: FloatArray) -> FloatArray:
        """Interpolate values of the bins, shape (bins,), at the cells, shape (cells,)."""
        return np.interp(self.cell_position, self.bin_position, values)

    def expected(self) -> list[Scaled]:
        """The mean p of each cell for each α and β."""
        means = (self.chance * expit(LOGITS)).sum(-1).T
        # the mean decreases only where very many rows demand it
        monotone = (isotonic(mean, self.rows)[0] for mean in means)
        return [_scaled_odds(self.by_cell(np.log(odds(p)))) for p in monotone]


def chain(sketch: Sketch, several: Sequence[Shares]) -> Chain:
    """All non-decreasing p, weighted by the likelihood of the counts.

    A priori p rises by jumps: RISES of them as the logit of the rank grows by 1, each by more than
    d logits with a probability of about RISE / (RISE + d), so that both smooth and abrupt rises are
    expected.

    The mean is taken because the likeliest such p, isotonic regression, is too high at the top: a
    few labeled rows that happen to come last form a block of their own.
    """
    total = sketch.counts.sum(1)
    starts = _bin_starts(total)
    rows = np.add.reduceat(total, starts)
    position = _rank_logit(rows)
    log_likelihood = _log_likelihood(np.add.reduceat(sketch.counts, starts), sketch, several)
    chance = _forward_backward(log_likelihood, RISES * np.diff(position))
    return Chain(chance, rows, position, _rank_logit(total))


def _log_likelihood(counts: IntArray, sketch: Sketch, several: Sequence[Shares]) -> FloatArray:
    """Of the rows of each bin if p is each of LOGITS, shape (bins, several, levels).

    For counts of shape (bins, 3). At p, there are (low + (high - low) p) times as many labeled rows
    per unlabeled row as overall, and (1-p) / (1-α) times as many negatives.
    """
    p, unit = expit(LOGITS), sketch.n_unlabeled or 1
    low, high = (ends[:, None] for ends in np.transpose([_ratio_range(one) for one in several]))
    ratio = sketch.n_labeled / unit * (low + (high - low) * p)
    log_likelihood = np.multiply.outer(counts[:, LABELED], np.log(ratio))
    if sketch.n_negative:
        rest = np.array([[1 - one.alpha] for one in several])
        negative_ratio = sketch.n_negative / unit * (1 - p) / rest
        log_likelihood += np.multiply.outer(counts[:, NEGATIVE], np.log(negative_ratio))
        ratio = ratio + negative_ratio
    total = np.log1p(ratio) if sketch.n_unlabeled else np.log(ratio)
    log_likelihood -= np.multiply.outer(counts.sum(1), total)
    return np.asarray(log_likelihood)


def _bin_starts(rows: IntArray) -> IntArray:
    """The first cell of each bin, for the rows of each cell.

    Bins are small at both ends, where p changes most, but hold at least half the square root of all
    rows: with fewer, p at the very top would follow the prior distribution.
    """
    rank, n = mid_ranks(rows), rows.sum()
    smallest = np.sqrt(n) / 2
    largest = max(n / BINS, smallest)

    def bins_within(distance: FloatArray) -> FloatArray:
        """The number of bins within a number of rows from an end."""
        growing = np.minimum(distance, (largest - smallest) / BIN_GROWTH)
        bins = np.log1p(BIN_GROWTH * growing / smallest) / BIN_GROWTH
        return np.asarray(bins + (distance - growing) / largest)

    from_end = bins_within(np.minimum(rank, n - rank))
    return bin_starts(np.where(rank <= n / 2, from_end, 2 * bins_within(n / 2) - from_end))


def _rank_logit(rows: IntArray) -> FloatArray:
    rank = mid_ranks(rows)
    return np.asarray(np.log(rank / (rows.sum() - rank)))


def _forward_backward(log_likelihood: FloatArray, rises: FloatArray) -> FloatArray:
    """The probability of each level in each bin, over all paths.

    Parameters
    ----------
    log_likelihood : shape (bins, copies, levels)
        The copies are independent of each other.
    rises : shape (bins - 1,)
        The expected number of rises from each bin to the next.

    Returns
    -------
    chance : shape (bins, copies, levels)
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
    """The probability of a rise from each level to each other, shape (levels, levels)."""
    by = LOGITS - LOGITS[:, None]
    chance = np.where(by > 0, (RISE + by.clip(0)) ** -2, 0.0)
    chance[-1, -1] = 1  # there is no higher level
    return np.asarray(chance / chance.sum(1, keepdims=True))


# ---- p as a smooth function of the score


def _spline(sketch: Sketch, several: Sequence[Shares], start: Sequence[Spline]) -> list[Scaled]:
    """p as a smooth function of the rank of the score."""
    return [_scaled_odds(_smooth(sketch, shares, start)[0]) for shares in several]


def _smooth(
    sketch: Sketch, shares: Shares, start: Sequence[Spline] = ()
) -> tuple[FloatArray, list[Spline]]:
    """The logit of p in each cell, shape (cells,), and the splines that it averages."""
    low, high = (ratio * sketch.n_labeled / sketch.n_unlabeled for ratio in _ratio_range(shares))
    rows = sketch.labeled + sketch.unlabeled
    fitted, splines = smooth_logit(sketch.labeled, rows, (low, high), start)
    return fitted.clip(*LOGITS[[0, -1]]), splines


# ---- What follows from a calibration


def _false_discovery_rate(p: FloatArray, rows: FloatArray | IntArray) -> FloatArray:
    """The mean of 1-p over the rows from each cell up; above all of them, 1-p itself."""
    above = np.cumsum(rows[::-1])[::-1]
    negatives = np.cumsum((rows * (1 - p))[::-1])[::-1]
    return np.where(above > 0, negatives / np.where(above > 0, above, 1), 1 - p)


def posterior_at(lr: FloatArray, alpha: float | FloatArray) -> FloatArray:
    """p(Y=1|x) in a population with a fraction α of positives, by Bayes' rule."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(lr), 1.0, alpha * lr / (alpha * lr + 1 - alpha))


def shift_prior(calibration: Calibration, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Posterior and fdr in a population with another α and the same f1 and f0.

    Rows are reweighted by how much more frequent their score is in that population.
    """
    lr, old = calibration.lr, calibration.shares.alpha
    certain = np.isinf(lr)
    finite = np.where(certain, 1.0, lr)
    density = alpha * finite + 1 - alpha  # in units of f0
    weight = np.where(certain, alpha / max(old, SMALLEST), density / (old * finite + 1 - old))
    shifted = posterior_at(lr, alpha)
    return shifted, _false_discovery_rate(shifted, calibration.population * weight)


def class_densities(calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """The unnormalized mass of f1 and of f0 in each cell, both of shape (cells,)."""
    lr, alpha, rows = calibration.lr, calibration.shares.alpha, calibration.population
    certain = np.isinf(lr)
    finite = np.where(certain, 1.0, lr)
    base = rows / (alpha * finite + 1 - alpha)
    f1 = np.where(certain, rows / max(alpha, SMALLEST), base * finite)
    return f1, np.where(certain, 0.0, base)


def corrected_auc(calibration: Calibration) -> float | None:
    """The AUC of positives against negatives, as far as α and β determine it."""
    sketch, shares, auc = calibration.sketch, calibration.shares, calibration.sketch.auc
    if sketch.labeled_class == "negative":
        shares, auc = _mirror(shares), 1 - auc
    excess = shares.beta - shares.alpha
    if not sketch.n_unlabeled:  # known negatives take the place of unlabeled rows, with α = 0
        excess, auc = shares.beta, sketch.auc_against(NEGATIVE)
    return float(np.clip(0.5 + (auc - 0.5) / excess, 0, 1)) if excess > 0 else None


def replicates(
    calibration: Calibration, seed: int, count: int = REPLICATES
) -> Iterator[Calibration]:
    """Calibrations of bootstrap samples of the rows, each with another of the likely α and β.

    Splines all have the penalty that suits the rows themselves.
    """
    rng = np.random.default_rng([seed, 2])
    sketch, smooth, start = calibration.sketch, calibration.smooth, list[Spline]()
    if smooth:
        _, start = _smooth(sketch, calibration.shares)
    for shares in spread(calibration.shares, count):
        yield calibrate(sketch.resample(rng), shares, smooth, start)


# ---- Bounds

ONE_SIDED = 0.95  # the coverage of each of the two bounds
CREDIBLE = 0.93  # credible bounds on a monotone function cover more than their level
MIXED = 40  # likely pairs of α and β that the bounds allow for
PAIRS_AT_ONCE = 10  # limits the memory
NONE_EXPECTED = 3.0  # rows: where so many are expected, there is none in one case of twenty

Pair = tuple[FloatArray, FloatArray]  # a lower and an upper bound, shapes (cells,)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the likelihood ratio of each cell, and on the posterior of its unlabeled rows."""

    lr: Pair
    posterior: Pair
    widening: FloatArray | None = None  # the factor by which groups widen them, shape (cells,)
    notices: tuple[Notice, ...] = ()

    def at(self, target_alpha: float | None) -> Pair:
        """Bounds on the posterior in a population with another α; None: that of these rows."""
        if target_alpha is None:
            return self.posterior
        low, high = self.lr
        return posterior_at(low, target_alpha), posterior_at(high, target_alpha)


def bounds(
    calibration: Calibration, seed: int, groups: GroupCopies | FloatArray | None = None
) -> Bounds:
    """Bound a calibration, given that counts are samples and that α and β are uncertain.

    A calibration that is the mean over all non-decreasing posteriors is bounded by quantiles over
    the same. For smooth calibrations the bounds are quantiles over bootstrap samples; for the mean
    these would be too narrow, as all samples share the same prior distribution.

    Parameters
    ----------
    calibration : Calibration
    seed : int
        Of the bootstrap.
    groups : GroupCopies, optional
        If rows form groups, bounds are wider by as much as bootstrap samples of groups vary more
        than samples of rows. In place of the groups, the factor that follows from them.
    """
    row_bounds = _row_bounds(calibration, seed)
    if groups is None or not calibration.informative:
        return row_bounds
    if isinstance(groups, GroupCopies):
        groups = _widening(calibration, groups, seed)
    return widen(row_bounds, calibration, groups)


def _row_bounds(calibration: Calibration, seed: int) -> Bounds:
    """The bounds if rows are independent of each other."""
    mirrored = calibration.mirrored
    if mirrored is not None:
        return _exchange_bounds(_row_bounds(mirrored, seed))
    if not any(map(is_informative, spread(calibration.shares, MIXED))):
        lr, p = calibration.lr, calibration.posterior
        return Bounds((lr, lr), (p, p))
    quantiles = _bootstrapped(calibration, seed) if calibration.smooth else _credible(calibration)
    lr_bounds = _enclose(calibration.lr, quantiles.lr)
    p_bounds = _enclose(calibration.posterior, quantiles.posterior)
    return _open(calibration, Bounds(lr_bounds, p_bounds))


def _exchange_bounds(mirrored: Bounds) -> Bounds:
    """The bounds of labeled negatives, from those of the mirrored sketch."""
    with np.errstate(divide="ignore"):
        low, high = (1 / bound[::-1] for bound in mirrored.lr)
    p_low, p_high = (1 - bound[::-1] for bound in mirrored.posterior)
    return Bounds((high, low), (p_high, p_low))


def _enclose(estimate: FloatArray, pair: Pair) -> Pair:
    """Bounds that do not decrease with the score and that enclose the estimate."""
    low, high = map(np.maximum.accumulate, pair)
    return np.minimum(low, estimate), np.maximum(high, estimate)


def _open(calibration: Calibration, closed: Bounds) -> Bounds:
    """The same bounds, 0 and 1 where the rows beyond a score are too few to exclude that.

    A posterior is at most as high at all lower scores. If at the bound fewer than NONE_EXPECTED of
    the rows there would be positive, none of them may be, unless one is positive for certain.
    """
    counts, beta = calibration.sketch.counts, calibration.shares.beta
    below = np.cumsum(counts, axis=0)
    above = below[-1] - below + counts
    (low, high), (p_low, p_high) = closed.lr, closed.posterior
    labeled_low = posterior_at(low, beta) if beta < 1 - SMALLEST else NONE_EXPECTED
    positives = below[:, UNLABELED] * p_low + below[:, LABELED] * labeled_low
    negatives = above[:, UNLABELED] * (1 - p_high) + above[:, NEGATIVE] * NONE_EXPECTED
    negatives += above[:, LABELED] * (1 - posterior_at(high, beta))
    no_positive, no_negative = positives < NONE_EXPECTED, negatives < NONE_EXPECTED
    return Bounds(
        (np.where(no_positive, 0, low), np.where(no_negative, np.inf, high)),
        (np.where(no_positive, 0, p_low), np.where(no_negative, 1, p_high)),
    )


@dataclass(frozen=True, eq=False)
class _Belief:
    """The distribution of the posterior in each bin, given α and β."""

    chance: FloatArray  # (bins, levels): the probability of each of LOGITS
    to_posterior: float  # what to add to LOGITS for the log-odds of the posterior ...
    to_lr: float  # ... and for the logarithm of the likelihood ratio


def _credible(calibration: Calibration) -> Bounds:
    """Quantiles over all non-decreasing posteriors and over the likely α and β."""
    sketch, shares, rows = calibration.sketch, calibration.shares, calibration.population
    several = list(filter(is_informative, spread(shares, MIXED if shares.draws else 1)))
    several = several or [replace(shares, draws=())]
    beliefs: list[_Belief] = []
    for first in range(0, len(several), PAIRS_AT_ONCE):
        some = several[first : first + PAIRS_AT_ONCE]
        paths = chain(sketch, some)
        for i, (one, scaled) in enumerate(zip(some, paths.expected(), strict=True)):
            scale = scale_to_mean(scaled, rows, one.alpha) if one.from_these_rows else 1.0
            shift, prior_odds = float(np.log(scale)), one.alpha / (1 - one.alpha)
            beliefs.append(_Belief(paths.chance[:, i], shift, shift - float(np.log(prior_odds))))
    low, high = map(paths.by_cell, _quantiles(beliefs, [one.to_lr for one in beliefs]))
    p_low, p_high = map(paths.by_cell, _quantiles(beliefs, [one.to_posterior for one in beliefs]))
    return Bounds((np.exp(low), np.exp(high)), (expit(p_low), expit(p_high)))


def _quantiles(beliefs: Sequence[_Belief], shifts: Sequence[float]) -> Pair:
    """The quantiles of equally weighted beliefs, each on LOGITS plus a shift; shapes (bins,)."""
    grid = np.arange(LOGITS[0] + min(shifts), LOGITS[-1] + max(shifts) + 1e-9, np.diff(LOGITS)[0])
    below = np.zeros((len(beliefs[0].chance), len(grid)))
    for belief, shift in zip(beliefs, shifts, strict=True):
        for row, cumulated in zip(below, mid_ranks(belief.chance), strict=True):
            row += np.interp(grid, LOGITS + shift, cumulated, left=0, right=1) / len(beliefs)
    low, high = ([np.interp(q, row, grid) for row in below] for q in (1 - CREDIBLE, CREDIBLE))
    return np.array(low), np.array(high)


def _bootstrapped(calibration: Calibration, seed: int) -> Bounds:
    """Quantiles over bootstrap samples of the rows, each with another of the likely α and β."""
    lr, posterior = [], []
    for copy in replicates(calibration, seed):
        cells = copy.sketch.cell_index(calibration.sketch.scores)
        lr.append(copy.lr[cells])
        posterior.append(copy.posterior[cells])

    def pair(drawn: list[FloatArray]) -> Pair:
        levels = (1 - ONE_SIDED, ONE_SIDED)
        low, high = np.quantile(drawn, levels, axis=0, method="closest_observation")
        return low, high

    return Bounds(pair(lr), pair(posterior))


# ---- Groups of similar rows
# Rows of one group, such as a gene, are similar, so that many of them are less informative than as
# many rows of different groups. In each of COPIES bootstrap samples a group has a Poisson(1) weight
# that follows from its name and the number of the copy alone: chunks and shards need not know of
# each other, and their counts add up. Counts are kept on the coarse grid of a small sketch.

COPIES = 100
MIN_GROUPS = 20  # to estimate how much they differ
MAX_CELLS = 512
ROWS_AT_ONCE = 1 << 12  # whose weights are in memory
NEARBY = 0.05  # the fraction of rows on either side over which variances are averaged
POISSON = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 12)]))  # P(at most 0, 1, ...)


@dataclass(frozen=True, eq=False)
class GroupCopies:
    """The rows by score, as they are and in each bootstrap sample of groups."""

    wide: Sketch  # with counts of shape (cells, (1 + COPIES) * sets)
    lowest_hashes: HashArray  # of groups, at most MIN_GROUPS: shows whether there are so many

    @classmethod
    def from_rows(cls, scores: FloatArray, sets: SetArray, groups: pa.Array) -> GroupCopies:
        """The copies of rows with finite scores; all of shape (n,)."""
        coded = groups.dictionary_encode()
        hashes = hash_texts(coded.dictionary.to_pylist())
        weights, group = _weights(hashes), np.asarray(coded.indices)
        parts = [NO_GROUPS]
        for first in range(0, len(scores), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            parts.append(cls(_weighted(scores[rows], sets[rows], weights[group[rows]]), hashes))
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[GroupCopies]) -> GroupCopies:
        """The copies of the rows of all parts."""
        parts = list(parts)
        lowest = np.unique(np.concatenate([part.lowest_hashes for part in parts]))[:MIN_GROUPS]
        return cls(Sketch.merge([part.wide for part in parts], MAX_CELLS), lowest)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning if there are too few groups."""
        n = len(self.lowest_hashes)
        return () if n == MIN_GROUPS else (Notice("few-groups", f"bounds rest on {n} groups"),)

    def sketches(self, whole: Sketch) -> tuple[Sketch, list[Sketch]]:
        """The rows of a sketch on the coarser grid, and the copies that have rows of every set."""
        counts = self.wide.counts.reshape(len(self.wide.edges), -1, len(SETS))
        present = counts[:, 0].any(axis=0)

        def sketch(copy: IntArray) -> Sketch:
            filled = copy.any(axis=1)
            edges, level = self.wide.edges[filled], self.wide.level
            return replace(whole, edges=edges, counts=copy[filled], level=level)

        copies = [sketch(counts[:, i]) for i in range(1, counts.shape[1])]
        complete = [copy for copy in copies if (copy.counts.any(axis=0) == present).all()]
        return sketch(counts[:, 0]), complete


_NO_ROWS = Sketch(np.empty(0), np.empty((0, (1 + COPIES) * len(SETS)), np.int64))
NO_GROUPS = GroupCopies(_NO_ROWS, np.empty(0, np.uint64))


def _weighted(scores: FloatArray, sets: SetArray, weights: IntArray) -> Sketch:
    """The wide sketch of rows with weights of shape (n, 1 + COPIES)."""
    counts = np.zeros((len(scores), weights.shape[1], len(SETS)), np.int64)
    counts[np.arange(len(scores)), :, sets.astype(np.int64)] = weights
    return Sketch.merge([Sketch(scores, counts.reshape(len(scores), -1))], MAX_CELLS)


def _weights(hashes: HashArray) -> IntArray:
    """The weight of each group in the rows themselves, 1, and in each copy."""
    states = hashes[:, None] + np.arange(1, COPIES + 1, dtype=np.uint64) * GOLDEN_RATIO
    drawn = np.searchsorted(POISSON, splitmix64(states) / 2.0**64, side="right")
    return np.column_stack([np.ones(len(hashes), np.int64), drawn])


def scored_chunks(
    rows: Rows, columns: Sequence[str], scorer: HonestScorer | None, threads: int
) -> Iterator[tuple[Chunk, FloatArray]]:
    """Chunks with their scores: of a table that the scorer scores, else of SCORES."""
    if scorer is not None:
        return scorer.score_all(rows, threads)
    return score_chunks(rows, columns)


@dataclass(frozen=True)
class GatherGroups:
    """The step that draws bootstrap samples of groups, of SCORES or of tables that it scores."""

    scorer: HonestScorer | None = None

    def __call__(self, job: Job, done: RowsDone, threads: int) -> GroupCopies:
        copies, rows = NO_GROUPS, job.part
        for chunk, scores in scored_chunks(rows, rows.carried, self.scorer, threads):
            groups = rows.groups(chunk)
            assert groups is not None  # callers always name the column
            known = np.isfinite(scores) & chunk.counted
            part = scores[known], chunk.sets[known], groups.filter(pa.array(known))
            copies = GroupCopies.merge([copies, GroupCopies.from_rows(*part)])
            done(len(scores))
        return copies

    @staticmethod
    def merge(results: Sequence[GroupCopies]) -> GroupCopies:
        return GroupCopies.merge(results)


def _widening(calibration: Calibration, copies: GroupCopies, seed: int) -> FloatArray:
    """The factor by which groups widen the bounds on the log-odds of each cell, shape (cells,).

    The standard deviation of the log-odds over samples of groups, over that over samples of rows.
    """
    rows, by_group = copies.sketches(calibration.sketch)
    rng = np.random.default_rng([seed, 4])
    by_row = [rows.resample(rng) for _ in by_group]
    shares = replace(calibration.shares, from_these_rows=False, draws=())
    group_variance, row_variance = (
        _variance(rows, samples, shares, calibration.smooth) for samples in (by_group, by_row)
    )
    ratio = np.ones(len(row_variance))  # also where a smooth curve is at its limit in all samples
    np.divide(group_variance, row_variance, out=ratio, where=row_variance > 0)
    factor = np.sqrt(np.maximum(ratio, 1))
    return np.asarray(factor[rows.cell_index(calibration.sketch.scores)])


def _variance(whole: Sketch, samples: list[Sketch], shares: Shares, smooth: bool) -> FloatArray:
    """The variance of the log-odds, averaged over neighboring cells, shape (cells,)."""
    copies = [calibrate(sample, shares, smooth) for sample in samples]
    logs = [np.log(copy.lr[copy.sketch.cell_index(whole.scores)]) for copy in copies]
    variance, rows = np.var(logs, axis=0), whole.counts.sum(1)
    rank = relative_mid_ranks(rows)
    low, high = (np.searchsorted(rank, rank + side * NEARBY) for side in (-1, 1))
    sums, weights = (np.append(0.0, np.cumsum(v)) for v in (variance * rows, rows))
    return np.asarray((sums[high] - sums[low]) / (weights[high] - weights[low]))


def widen(narrow: Bounds, calibration: Calibration, factor: FloatArray) -> Bounds:
    """Bounds whose distance from the estimates, on log-odds, is multiplied by a factor.

    A bound that is infinitely far from an estimate of 0 or 1 stays.
    """

    def pair(estimate: FloatArray, bounds: Pair) -> Pair:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            times = [np.where(bound == estimate, 1, bound / estimate) for bound in bounds]
            wider = [estimate * by**factor for by in times]
        low, high = (np.where(np.isnan(w), b, w) for w, b in zip(wider, bounds, strict=True))
        return _enclose(estimate, (low, high))

    p_low, p_high = narrow.posterior
    low, high = pair(odds(calibration.posterior), (odds(p_low), odds(p_high)))
    p_bounds = posterior_at(low, 0.5), posterior_at(high, 0.5)  # odds are ratios at even odds
    return Bounds(pair(calibration.lr, narrow.lr), p_bounds, factor)
