"""Best bin estimation (BBE, Garg et al. 2021) from both ends of the scores.

It bounds α and β for any overlap of the classes: α ≤ inf f/g and 1-β ≤ inf g/f.

Both infima are at most the ratio of the samples' fractions above (or below) any threshold. If
f ≥ r g everywhere then, going down from the highest score, each row is labeled with a probability
of at most |L| / (|L| + r|U|). The limits are the lowest r and s that the rows above all thresholds
together do not refute.
"""

from __future__ import annotations

import numpy as np

from ..numerics import FloatArray, IntArray
from ..score.sketch import Sketch
from .alphamax import correct_for_noise
from .base import Estimate, Settings, register

WIDTH = np.array([0.3])  # of the published confidence width, which is wider than it need be


def best_bins(
    mixture: FloatArray | IntArray, component: FloatArray | IntArray, widths: FloatArray
) -> FloatArray:
    """The largest fraction of the component in the mixture, one bound for each of the widths.

    Counts have shape (cells,), the cells where the component is purest first.
    """
    best = best_thresholds(mixture, component, widths)
    fractions = [np.cumsum(counts) / float(counts.sum()) for counts in (mixture, component)]
    return np.asarray(np.minimum(fractions[0][best] / fractions[1][best], 1.0))


def best_thresholds(
    mixture: FloatArray | IntArray, component: FloatArray | IntArray, widths: FloatArray
) -> IntArray:
    """The last cell above the best threshold for each of the widths.

    The ratio of the samples' fractions above a threshold bounds the proportion; the best threshold
    has the lowest ratio plus width.
    """
    n_mixture, n_component = float(mixture.sum()), float(component.sum())
    above = np.cumsum(component) / n_component
    seen = above > 0
    ratio = (np.cumsum(mixture) / n_mixture)[seen] / above[seen]
    width = 1.01 * np.sqrt(np.log(40) / 2) * (n_mixture**-0.5 + n_component**-0.5)
    best = np.argmin(ratio + widths[:, None] * width / above[seen], axis=1)
    return np.asarray(np.flatnonzero(seen)[best])


@register("bound")
def bound(sketch: Sketch, settings: Settings) -> Estimate:
    """Best bin estimation from both ends of the scores, with the paper's correction."""
    alpha_plus = float(best_bins(sketch.unlabeled[::-1], sketch.labeled[::-1], WIDTH)[0])
    beta_plus = float(best_bins(sketch.labeled, sketch.unlabeled, WIDTH)[0])
    if settings.beta is not None:
        return Estimate(alpha_plus * settings.beta, settings.beta, alpha_plus, beta_plus)
    return Estimate(*correct_for_noise(alpha_plus, beta_plus), alpha_plus, beta_plus)


FIRST = 0.05  # of the rows of the purer sample are above the first threshold
LOOKS = 100  # thresholds, at even steps of the logarithm of that fraction
# The 95% quantile, over that many thresholds or more, of the largest signed root of twice the
# log-likelihood ratio; 2.6 to 2.7 in simulations of 20 to 10,000 rows and any probability.
ROOT = 2.7


FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0)  # by which rates of labeling may differ from their mean
WIDER_ROOT = 3.0  # with two bounds at each threshold, where labels are not representative
SPLITS = np.sin(np.linspace(0, np.pi / 2, 17))  # of the root between two samples
BELOW = 0.001  # of the labeled rows are below the last threshold but one


def limits(sketch: Sketch) -> tuple[float, float]:
    """An upper limit of α and a lower limit of β, each true in at least 95% of samples.

    Both need labeled positives that are representative of all positives.
    """
    alpha_max = _upper_limit(sketch.unlabeled[::-1], sketch.labeled[::-1])
    return alpha_max, 1 - _upper_limit(sketch.labeled, sketch.unlabeled)


def limits_by_selection(
    sketch: Sketch, factors: tuple[float, ...] = FACTORS
) -> tuple[tuple[float, float], ...]:
    """The upper limit of α if positives are labeled at unequal rates, for increasing factors.

    The first factor is 1, at which the limit is that of `limits`.

    If rates differ from their mean by at most a factor Γ, then f1 = w g with 1/Γ ≤ w ≤ Γ and an
    integral of 1. Of f1, at least max(1 - Γ(1-G), G/Γ) is above a threshold that a part G of the
    labeled rows is above, so α is at most the unlabeled rows' part divided by that. This also
    holds if labels are wrong: min(Γg, f/α) ≥ β f1 + (1-β) f0 wherever β ≥ α.
    """
    unlabeled, labeled = sketch.unlabeled[::-1], sketch.labeled[::-1]
    n_labeled, wider = sketch.n_labeled, _upper_limit(unlabeled, labeled, WIDER_ROOT)
    below = BELOW ** np.linspace(0, 1, LOOKS)
    looks = n_labeled * (1 - np.concatenate([below, [0.0]]))
    ends = np.unique(np.searchsorted(np.cumsum(labeled), looks - 1e-6))
    seen, others = np.cumsum(labeled)[ends] / n_labeled, np.cumsum(unlabeled)[ends]
    missed = 1 - others / sketch.n_unlabeled
    # the least part of g and the greatest of f above each threshold, at each split of the root
    least = _min_chance(seen[:, None], n_labeled, WIDER_ROOT * SPLITS)
    greatest = 1 - _min_chance(missed[:, None], sketch.n_unlabeled, WIDER_ROOT * SPLITS[::-1])
    limits = [_upper_limit(unlabeled, labeled)]
    for factor in factors[1:]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = greatest / np.maximum(1 - factor * (1 - least), 0.0)
        highest = min(factor * wider, float(ratio.max(axis=1).min()), 1.0)
        limits.append(max(highest, limits[-1]))
    return tuple(zip(factors, limits, strict=True))


def _upper_limit(mixture: IntArray, component: IntArray, root: float = ROOT) -> float:
    """The upper limit of the component's fraction in the mixture; counts as in `best_bins`."""
    n_mixture, n_component = int(mixture.sum()), int(component.sum())
    looks = n_component * FIRST ** np.linspace(1, 0, LOOKS)
    ends = np.unique(np.searchsorted(np.cumsum(component), looks - 1e-6))
    seen, others = np.cumsum(component)[ends], np.cumsum(mixture)[ends]
    chance = _min_chance(seen / (seen + others), (seen + others).astype(np.float64), root)
    return float(np.minimum((n_component / n_mixture) * (1 / chance - 1), 1.0).min())


def _min_chance(
    fraction: FloatArray, n: FloatArray | float, root: FloatArray | float
) -> FloatArray:
    """The lowest probability that such a fraction of n trials does not refute, by bisection."""
    shape = np.broadcast_shapes(fraction.shape, np.shape(root))
    low, high = np.zeros(shape), np.broadcast_to(fraction, shape)
    for _ in range(40):
        chance = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            other = np.where(
                fraction < 1, (1 - fraction) * np.log((1 - fraction) / (1 - chance)), 0.0
            )
            too_large = 2 * n * (fraction * np.log(fraction / chance) + other) > np.square(root)
        low, high = np.where(too_large, chance, low), np.where(too_large, high, chance)
    return np.asarray(high)


def sampling_interval(sketch: Sketch, alpha: float) -> tuple[float, float]:
    """The 95% interval of α if the overlap of the classes were known.

    It has the relative error that the sizes of the samples leave in the bounds of the best bins.
    """
    top, top_error = _best_bin(sketch.unlabeled[::-1], sketch.labeled[::-1])
    bottom, bottom_error = _best_bin(sketch.labeled, sketch.unlabeled)
    rest = max(1 - top * bottom, 1e-9)
    # the slopes of log α in the logarithms of the two bounds, by equation 5 of the paper
    slopes = np.array([1 / rest, bottom * (1 - top) / (rest * max(1 - bottom, 1e-9))])
    error = min(float(np.hypot(*(slopes * [top_error, bottom_error]))), 3.0)
    odds = alpha / (1 - alpha) if alpha < 1 else np.inf
    low, high = odds * np.exp(np.array([-1.96, 1.96]) * error / max(1 - alpha, 1e-9))
    low, high = low / (1 + low), 1 / (1 + 1 / high) if high > 0 else 0.0
    return min(float(low), alpha), max(float(high), alpha)  # rounding moves both


def _best_bin(mixture: IntArray, component: IntArray) -> tuple[float, float]:
    """The bound of best bin estimation and the standard error of its logarithm."""
    above_m, above_c = np.cumsum(mixture), np.cumsum(component)
    best = best_thresholds(mixture, component, WIDTH)[0]
    m, c = max(float(above_m[best]), 0.5), float(above_c[best])
    fraction = min((m / above_m[-1]) / (c / above_c[-1]), 1.0)
    return fraction, float(np.sqrt(1 / m - 1 / above_m[-1] + 1 / c - 1 / above_c[-1]))
