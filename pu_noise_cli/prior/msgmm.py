"""MSGMM: both samples as mixtures of the same two Gaussians, by EM (the paper's appendix, "MSGMM").

Written on the sufficient statistics z = (1, x, xxᵀ) of a Gaussian, the log-ratio of the densities
is z·θ and the M-step needs only weighted means of z: two matrix-vector products per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..notices import Notice
from ..numerics import FloatArray, IntArray
from ..score.sketch import Sketch
from .base import Estimate, Settings, register

TOLERANCE = 1e-7  # on the change of α and β in one EM step
SHORT_RUN, LONG_RUN = 10, 300  # accelerated steps of each start, and of the best one thereafter
VARIANCE_FLOOR = 1e-4  # of data of unit variance
MAX_REVERSED = 0.2  # of the rows, for which the likelihood ratio may fall where it should rise
RESOLUTION = 0.01  # standard deviations within which scores count as one


@register("msgmm")
def msgmm(sketch: Sketch, settings: Settings) -> Estimate:
    """MSGMM: parametric, two Gaussians that the labeled and the unlabeled scores share."""
    return fit(
        _merged(make_data(sketch.scores[:, None], sketch.unlabeled, sketch.labeled)), settings
    )


@dataclass(frozen=True)
class Data:
    """Standardized z of shape (n, 1 + d + d²), and how many rows of each sample have it."""

    z: FloatArray
    unlabeled: FloatArray
    labeled: FloatArray

    @property
    def x(self) -> FloatArray:
        return self.z[:, 1 : 1 + int(np.sqrt(self.z.shape[1] - 1))]


@dataclass(frozen=True)
class Mixtures:
    """f = α φ1 + (1-α) φ0 and g = β φ1 + (1-β) φ0, each φ as its mean of z."""

    alpha: float
    beta: float
    moments: FloatArray  # (2, 1 + d + d²): of component 1 and of component 0


def make_data(x: FloatArray, unlabeled: IntArray, labeled: IntArray) -> Data:
    """The data of points x of shape (n, d), given how many rows of each sample lie there."""
    fraction = (unlabeled + labeled) / (unlabeled.sum() + labeled.sum())
    x = x / np.maximum(np.abs(x).max(0), 1e-300)  # so that squares neither overflow nor vanish
    x = x - fraction @ x
    scale = np.sqrt(fraction @ x**2)
    x = x / np.where(scale > 1e-12, scale, 1.0)
    outer = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    z = np.column_stack([np.ones(len(x)), x, outer])
    return Data(z, unlabeled.astype(np.float64), labeled.astype(np.float64))


def _merged(data: Data) -> Data:
    """Univariate data with neighboring points as one: their mean z, so that no moment changes."""
    _, group = np.unique(np.floor(data.x[:, 0] / RESOLUTION), return_inverse=True)

    def summed(values: FloatArray) -> FloatArray:
        return np.bincount(group, values).astype(np.float64)

    rows = data.unlabeled + data.labeled
    z = np.stack([summed(rows * column) for column in data.z.T], axis=1)
    unlabeled, labeled = summed(data.unlabeled), summed(data.labeled)
    return Data(z / np.maximum(unlabeled + labeled, 1e-300)[:, None], unlabeled, labeled)


def fit(data: Data, settings: Settings) -> Estimate:
    """EM from several starts, the best of which is followed to the end.

    The starts compete with a common covariance. The components get one each where the Bayesian
    information criterion asks for it and they still tell classes apart: a wide and a narrow one
    around the same mean fit heavy tails or skew well, but not as positives and negatives.
    """
    beta = settings.beta
    runs = [em(start, data, beta, SHORT_RUN, common=True)[0] for start in starts(data, beta)]
    start = max(runs, key=lambda run: log_likelihood(run, data, common=True))
    best, converged = em(start, data, beta, LONG_RUN, common=True)
    free, free_converged = em(best, data, beta, LONG_RUN, common=False)
    gain = log_likelihood(free, data, common=False) - log_likelihood(best, data, common=True)
    d = data.x.shape[1]
    penalty = d * (d + 1) / 4 * np.log(data.unlabeled.sum() + data.labeled.sum())
    if gain > penalty and reversed_fraction(free, data) < MAX_REVERSED:
        best, converged = free, free_converged
    fractions = best.alpha, best.beta
    if best.alpha > best.beta:  # component 1 is the one that the labeled rows have more of
        fractions = (1 - best.alpha, 1 - best.beta) if beta is None else (beta, beta)
    unsettled = Notice("not-converged", f"EM had not converged after {3 * LONG_RUN} steps")
    return Estimate(*fractions, converged=converged, notices=() if converged else (unsettled,))


def reversed_fraction(mixtures: Mixtures, data: Data) -> float:
    """The fraction of rows where a step towards the mean of component 1 makes it less likely."""
    d = data.x.shape[1]
    theta1, theta0 = thetas(mixtures, data, common=False)
    pull, curvature = np.split((theta1 - theta0)[1:], [d])
    gradient = pull + 2 * data.x @ curvature.reshape(d, d)
    rows = data.unlabeled + data.labeled
    towards = mixtures.moments[0, 1 : 1 + d] - mixtures.moments[1, 1 : 1 + d]
    return float(rows @ (gradient @ towards < 0) / rows.sum())


def starts(data: Data, fixed_beta: float | None) -> list[Mixtures]:
    """Splits of all rows along the line from the unlabeled to the labeled mean.

    They are cut halfway, at the labeled median and at the last tenth of the unlabeled rows.
    """
    mean_u = data.unlabeled @ data.x / data.unlabeled.sum()
    mean_l = data.labeled @ data.x / data.labeled.sum()
    position = data.x @ (mean_l - mean_u)
    halfway = (mean_l + mean_u) @ (mean_l - mean_u) / 2
    cuts = halfway, _quantile(position, data.labeled, 0.5), _quantile(position, data.unlabeled, 0.9)
    return [m_step(data, above, above, fixed_beta) for above in (position > cut for cut in cuts)]


def _quantile(x: FloatArray, counts: FloatArray, fraction: float) -> float:
    """The smallest x with at least that fraction of the rows at or below it."""
    order = np.argsort(x, kind="stable")
    below = np.cumsum(counts[order])
    return float(x[order][np.searchsorted(below, fraction * below[-1])])


def em(
    mixtures: Mixtures, data: Data, fixed_beta: float | None, steps: int, *, common: bool
) -> tuple[Mixtures, bool]:
    """The mixtures after at most so many accelerated steps, and whether α and β had settled.

    The steps are SQUAREM's (Varadhan and Roland 2008): extrapolate two EM steps, take a third.
    """

    def em_step(mixtures: Mixtures) -> Mixtures:
        return m_step(data, *e_step(mixtures, data, common=common), fixed_beta)

    for _ in range(steps):
        one = em_step(mixtures)
        if max(abs(one.alpha - mixtures.alpha), abs(one.beta - mixtures.beta)) < TOLERANCE:
            return one, True
        two = em_step(one)
        mixtures = em_step(_extrapolated(mixtures, one, two))
        if log_likelihood(mixtures, data, common=common) < log_likelihood(two, data, common=common):
            mixtures = two
    return mixtures, False


def e_step(mixtures: Mixtures, data: Data, *, common: bool) -> tuple[FloatArray, FloatArray]:
    """The posteriors of component 1 as an unlabeled and as a labeled row, each of shape (n,)."""
    theta1, theta0 = thetas(mixtures, data, common=common)
    ratio = np.exp(np.clip(data.z @ (theta1 - theta0), -500, 500))
    positive_u, positive_l = mixtures.alpha * ratio, mixtures.beta * ratio
    return (
        positive_u / (positive_u + (1 - mixtures.alpha)),
        positive_l / (positive_l + (1 - mixtures.beta)),
    )


def m_step(data: Data, w_u: FloatArray, w_l: FloatArray, fixed_beta: float | None) -> Mixtures:
    """The mixtures that maximize the expected log-likelihood given the posteriors."""
    positive_u, positive_l = data.unlabeled * w_u, data.labeled * w_l
    positive = positive_u + positive_l
    sums = np.stack([positive, data.unlabeled + data.labeled - positive]) @ data.z
    moments = sums / np.maximum(sums[:, :1], 1e-12)
    alpha = positive_u.sum() / data.unlabeled.sum()
    beta = positive_l.sum() / data.labeled.sum() if fixed_beta is None else fixed_beta
    return Mixtures(min(float(alpha), 1.0), min(float(beta), 1.0), moments)


def thetas(mixtures: Mixtures, data: Data, *, common: bool) -> FloatArray:
    """θ of both components, shape (2, 1 + d + d²): z·θ is the log-density but for a constant."""
    d = data.x.shape[1]
    mean = mixtures.moments[:, 1 : 1 + d]
    covariance = mixtures.moments[:, 1 + d :].reshape(2, d, d) - mean[:, :, None] * mean[:, None, :]
    if common:
        n_u, n_l = data.unlabeled.sum(), data.labeled.sum()
        fraction = (mixtures.alpha * n_u + mixtures.beta * n_l) / (n_u + n_l)
        covariance[:] = fraction * covariance[0] + (1 - fraction) * covariance[1]
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, VARIANCE_FLOOR)
    precision = (vectors / values[:, None, :]) @ vectors.transpose(0, 2, 1)
    pull = (precision @ mean[:, :, None])[:, :, 0]
    constant = -0.5 * ((mean * pull).sum(1) + np.log(values).sum(1))
    return np.column_stack([constant, pull, -0.5 * precision.reshape(2, -1)])


def log_likelihood(mixtures: Mixtures, data: Data, *, common: bool) -> float:
    """Of both samples together, up to a constant."""
    log_phi1, log_phi0 = thetas(mixtures, data, common=common) @ data.z.T
    with np.errstate(divide="ignore"):  # log 0 of an empty component
        fractions = np.log([[m, 1 - m] for m in (mixtures.alpha, mixtures.beta)])
    f, g = (np.logaddexp(p1 + log_phi1, p0 + log_phi0) for p1, p0 in fractions)
    return float(data.unlabeled @ f + data.labeled @ g)


def _extrapolated(start: Mixtures, one: Mixtures, two: Mixtures) -> Mixtures:
    """Where the path of two steps from the start leads."""
    s0, s1, s2 = (np.append(m.moments.ravel(), [m.alpha, m.beta]) for m in (start, one, two))
    first, bend = s1 - s0, (s2 - s1) - (s1 - s0)
    length = max(float(np.linalg.norm(first)) / max(float(np.linalg.norm(bend)), 1e-300), 1.0)
    *moments, alpha, beta = s0 + 2 * length * first + length**2 * bend
    alpha, beta = np.clip([alpha, beta], 0, 1)
    return Mixtures(float(alpha), float(beta), np.reshape(moments, start.moments.shape))
