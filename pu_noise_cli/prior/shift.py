"""Alpha of a new sample that a trained model scores, without labels of its own.

Training rows are L ~ β f1 + (1-β) f0 and U ~ α f1 + (1-α) f0. New rows are V ~ α' f1 + (1-α') f0
with the same f1 and f0, so V = w L + (1-w) U with α' = α + w (β-α). The scores show w for any α and
β, without any assumption, and the belief in these gives α'. w is negative if α' is below α.

The interval assumes nothing of α' beforehand: a value below 0 or above 1 stands for 0 or 1. The
estimate within it takes small values for likely, as `auto` does, and all others for equally likely.
The belief of `auto` is taken with the likelihood as its networks give it, not to a power: SHARPNESS
was chosen for intervals of α and makes those of α' too narrow (benchmarks/results/shift.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from ..errors import EstimationError
from ..notices import Notice
from ..numerics import FloatArray, IntArray, bin_starts, mid_ranks
from ..score.sketch import Sketch
from .auto import DEFAULT, DRAWS, Evidence, believe
from .base import Settings
from .document import Prior, shares_for
from .estimation import labeled_class_on_top

METHOD = "prior-shift"
BINS = 12  # over which the samples are compared
WEIGHTS = 241  # values of w
SMOOTHING = 0.5  # rows, added to each bin
NEGLIGIBLE = 12.0  # a log-likelihood this far below the highest is negligible
TINY = 1e-12
MIN_ROWS = 20
UNLIKELY = 3.5  # standard deviations of misfit of new rows that are not such a mixture
LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class Shifted:
    """Alpha of the new rows."""

    alpha: float
    alpha_ci: tuple[float, float]
    draws: tuple[tuple[float, float], ...]  # equally likely pairs of the new α and β
    notices: tuple[Notice, ...]


def shifted_alpha(
    training: Sketch, new: FloatArray, pairs: tuple[tuple[float, float], ...]
) -> Shifted:
    """Alpha of new rows.

    Parameters
    ----------
    training
        The scores of the labeled and unlabeled rows.
    new : (cells,)
        The new rows in each cell of the training scores.
    pairs
        Equally likely pairs of the fractions of positives among unlabeled and labeled rows.
    """
    if new.sum() < MIN_ROWS:
        raise EstimationError(f"{int(new.sum())} new rows; at least {MIN_ROWS} are needed")
    counts = np.column_stack([training.unlabeled, training.labeled, new]).astype(np.float64)
    counts = np.add.reduceat(counts, _bins(counts))
    alpha, beta = np.array(pairs).T
    w = _weights(alpha, beta)
    log_likelihood, misfit = _profile(counts, w)
    ends = w[log_likelihood > log_likelihood.max() - NEGLIGIBLE][[0, -1]]
    step = w[1] - w[0]
    w = np.linspace(ends[0] - step, ends[1] + step, WEIGHTS)
    log_likelihood, misfit = _profile(counts, w)
    # every pair with every w
    shifted = (alpha[:, None] + w * (beta - alpha)[:, None]).ravel()
    mass = np.tile(np.exp(log_likelihood - log_likelihood.max()), len(alpha))
    possible = mass * _density(shifted) * np.repeat(np.abs(beta - alpha), len(w))
    order, shifted = np.argsort(shifted), shifted.clip(0, 1)

    def places(levels: FloatArray, mass: FloatArray) -> IntArray:
        cdf = np.cumsum(mass[order])
        return order[np.searchsorted(cdf, levels * cdf[-1]).clip(0, len(order) - 1)]

    tail = (1 - LEVEL) / 2
    low, high, highest = shifted[places(np.array([tail, LEVEL, 1 - tail]), mass)].tolist()
    # less than a row is none, and then only the upper end can be wrong
    low, high = (low, highest) if low * new.sum() >= 1 else (0.0, high)
    middle = float(shifted[places(np.array([0.5]), possible if possible.any() else mass)][0])
    even = places((np.arange(len(pairs)) + 0.5) / len(pairs), mass)
    draws = zip(shifted[even].tolist(), beta[even // len(w)].tolist(), strict=True)
    notices = _notices(misfit.min(), len(counts))
    return Shifted(min(max(middle, low), high), (low, high), tuple(draws), notices)


def _density(alpha: FloatArray) -> FloatArray:
    """How likely each α' is beforehand, up to a factor; 0 beyond 0 and 1."""
    low, high = DEFAULT.small_alpha
    small = DEFAULT.small / (np.maximum(alpha, low) * np.log(high / low))
    density = 1 - DEFAULT.small + np.where(alpha < high, small, 0.0)
    return np.where((alpha >= 0) & (alpha <= 1), density, 0.0)


def pairs_of(prior: Prior, training: Sketch) -> tuple[tuple[float, float], ...]:
    """Pairs of α and β of the training rows to shift from, see above."""
    assumed = prior.assumed
    if assumed is None or prior.n_verdicts:
        _, shares, _ = shares_for(prior, training)
        return shares.draws or ((shares.alpha, shares.beta),)
    negatives = prior.labeled_class == "negative"
    between = assumed.alpha_between
    settings = Settings(
        beta=None if isinstance(assumed.beta, tuple) else assumed.beta,
        purity=assumed.purity,
        alpha_between=(1 - between[1], 1 - between[0]) if negatives and between else between,
        beta_between=assumed.beta_between,
    )
    sketch = labeled_class_on_top(training, prior.labeled_class)
    belief, _, _ = believe(sketch, settings, Evidence.from_sketch(sketch, power=1.0))
    draws = belief.draws(DRAWS)
    return tuple((1 - alpha, 1 - beta) for alpha, beta in draws) if negatives else draws


def shifted_prior(
    prior: Prior,
    training: Sketch,
    new: Sketch,
    sample: str | None = None,
    notices: tuple[Notice, ...] = (),
) -> Prior:
    """The prior of new rows, from that of the training rows and the scores of both."""
    training, _, _ = shares_for(prior, training)
    rows = np.zeros(len(training.edges))
    np.add.at(rows, training.cell_index(new.scores), new.unlabeled)
    found = shifted_alpha(training, rows, pairs_of(prior, training))
    of_negatives = prior.labeled_class == "negative"
    draws = tuple((alpha, 1 - beta if of_negatives else beta) for alpha, beta in found.draws)
    return Prior(
        method=METHOD,
        seed=prior.seed,
        labeled_are=prior.labeled_are,
        n_labeled=prior.n_labeled,
        n_unlabeled=int(rows.sum()),
        n_negatives=prior.n_negatives,
        alpha=found.alpha,
        alpha_ci=found.alpha_ci,
        beta=prior.beta,
        beta_ci=prior.beta_ci,
        auc_pu=prior.auc_pu,
        auc=prior.auc,
        sample=sample,
        notices=(*notices, *found.notices),
        draws=draws,
        shifted_from=msgspec.structs.replace(prior, curves=None, shifted_from=None),
    )


def _bins(counts: FloatArray) -> IntArray:
    """The first cell of each bin; bins have equal parts of the three samples together."""
    fraction = (counts / counts.sum(0)).sum(1) / counts.shape[1]
    return bin_starts(mid_ranks(fraction) * BINS)


def _weights(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Values of w that some pair allows."""
    excess = np.where(np.abs(beta - alpha) < TINY, TINY, beta - alpha)
    ends = np.stack([-alpha / excess, (1 - alpha) / excess])
    low, high = np.quantile(ends.min(0), 0.005), np.quantile(ends.max(0), 0.995)
    return np.linspace(max(low, -20.0), min(high, 20.0), WEIGHTS)


def _profile(counts: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The log-likelihood of each w and the misfit of V = w L + (1-w) U, both of shape (len(w),).

    The difference of the two sides is close to normal, with the sampling errors of all three sets;
    the distributions of L and U are integrated out.
    """
    rows = counts.sum(0)
    smooth = (counts + SMOOTHING) / (rows + SMOOTHING * len(counts))
    errors = [
        (np.diag(p) - np.outer(p, p))[:-1, :-1] / n for p, n in zip(smooth.T, rows, strict=True)
    ]
    unlabeled, labeled, new = (counts / rows)[:-1].T
    at = w[:, None, None]
    covariance = (1 - at) ** 2 * errors[0] + at**2 * errors[1] + errors[2]
    difference = new - w[:, None] * labeled - (1 - w)[:, None] * unlabeled
    solved = np.linalg.solve(covariance, difference[..., None])[..., 0]
    misfit = (difference * solved).sum(1)
    log_likelihood = -(misfit + np.linalg.slogdet(covariance)[1]) / 2
    return log_likelihood, misfit


def _notices(misfit: float, bins: int) -> tuple[Notice, ...]:
    """The warning that the new rows are not a mixture of the same two classes, if it is due."""
    freedom = bins - 2
    if freedom < 1 or (misfit - freedom) / np.sqrt(2 * freedom) < UNLIKELY:
        return ()
    message = (
        "the scores of the new rows are not a mixture of those of the training rows' classes "
        f"(misfit {misfit:.0f}, {freedom} expected): alpha may be wrong"
    )
    return (Notice("new-rows-differ", message),)
