"""Alpha of a new sample that a trained model scores, without labels of its own.

Training rows are L ~ β f1 + (1-β) f0 and U ~ α f1 + (1-α) f0. New rows are V ~ α' f1 + (1-α') f0
with the same f1 and f0, so V = w L + (1-w) U with α' = α + w (β-α). The scores show w for any α and
β, and the belief in these gives α'. w is negative if α' is below α.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from ..errors import EstimationError
from ..notices import Notice
from ..numerics import FloatArray, IntArray, bin_starts, mid_ranks
from ..score.sketch import Sketch
from .auto import prior_belief
from .document import Prior, shares_for

METHOD = "prior-shift"
BINS = 12  # over which the samples are compared
WEIGHTS = 241  # values of w
SMOOTHING = 0.5  # rows, added to each bin
NEGLIGIBLE = 12.0  # a log-likelihood this far below the highest is negligible
TINY = 1e-12
MIN_ROWS = 20
UNLIKELY = 3.5  # standard deviations of misfit of new rows that are not such a mixture
TAILS = (0.025, 0.5, 0.975)


@dataclass(frozen=True)
class Shifted:
    """Alpha of the new rows."""

    alpha: float
    alpha_ci: tuple[float, float]
    draws: tuple[tuple[float, float], ...]  # equally likely pairs of the new α and β
    notices: tuple[Notice, ...]


def shifted_alpha(
    training: Sketch,
    new: FloatArray,
    pairs: tuple[tuple[float, float], ...],
    density: Callable[[FloatArray], FloatArray] = np.ones_like,
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
    density
        The density of the new α before the new rows are seen, up to a factor.
    """
    if new.sum() < MIN_ROWS:
        raise EstimationError(f"{int(new.sum())} new rows; at least {MIN_ROWS} are needed")
    counts = np.column_stack([training.unlabeled, training.labeled, new]).astype(np.float64)
    counts = np.add.reduceat(counts, _bins(counts))
    alpha, beta = np.array(pairs).T
    w = _weights(alpha, beta)
    log_likelihood, misfit = _profile(counts, w)
    near = log_likelihood > log_likelihood.max() - NEGLIGIBLE
    ends = w[near][[0, -1]]
    step = w[1] - w[0]
    w = np.linspace(ends[0] - step, ends[1] + step, WEIGHTS)
    log_likelihood, misfit = _profile(counts, w)
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    # every pair with every w that it allows, as an α' is between 0 and 1
    excess = (beta - alpha)[:, None]
    shifted = alpha[:, None] + w * excess
    possible = (shifted >= 0) & (shifted <= 1)
    mass = np.where(possible, likelihood * density(shifted) * np.abs(excess), 0.0)
    if not mass.sum() > 0:
        mass, shifted = np.tile(likelihood, (len(alpha), 1)), shifted.clip(0, 1)
    order = np.argsort(shifted, axis=None)
    cdf = np.cumsum(mass.ravel()[order]) / mass.sum()
    levels = (np.arange(len(pairs)) + 0.5) / len(pairs)
    places = order[np.searchsorted(cdf, [*TAILS, *levels]).clip(0, len(order) - 1)]
    values = shifted.ravel()[places]
    betas = np.repeat(beta, len(w))[places]
    draws = zip(values[3:].tolist(), betas[3:].tolist(), strict=True)
    low, middle, high = values[:3].tolist()
    low = low if low * new.sum() >= 1 else 0.0  # less than a row is none
    return Shifted(middle, (low, high), tuple(draws), _notices(misfit.min(), len(counts)))


def usual_density(alpha: FloatArray) -> FloatArray:
    """The density of α by the prior of `auto`, in which small values are likely."""
    belief = prior_belief()
    edges = belief.alpha_edges
    heights = belief.mass.sum(1) / np.diff(edges)
    return heights[(np.searchsorted(edges, alpha, "right") - 1).clip(0, len(heights) - 1)]


def shifted_prior(prior: Prior, training: Sketch, new: Sketch, sample: str | None = None) -> Prior:
    """The prior of new rows, from that of the training rows and the scores of both."""
    training, shares, _ = shares_for(prior, training)
    cells = training.cell_index(new.scores)
    rows = np.zeros(len(training.edges))
    np.add.at(rows, cells, new.unlabeled)
    of_negatives = prior.labeled_class == "negative"
    pairs = shares.draws or ((shares.alpha, shares.beta),)
    density = np.ones_like if of_negatives else usual_density
    found = shifted_alpha(training, rows, pairs, density)
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
        notices=found.notices,
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
    log_likelihood, misfit = np.empty(len(w)), np.empty(len(w))
    for i, weight in enumerate(w):
        covariance = (1 - weight) ** 2 * errors[0] + weight**2 * errors[1] + errors[2]
        difference = new - weight * labeled - (1 - weight) * unlabeled
        misfit[i] = difference @ np.linalg.solve(covariance, difference)
        log_likelihood[i] = -(misfit[i] + np.linalg.slogdet(covariance)[1]) / 2
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
