"""Subclasses of positives, each labeled at a rate of its own: a fraction for each, added up.

The labeled rows are cut into clusters. If all positives of a cluster are equally likely to be
labeled, the cluster against all unlabeled rows is a problem of its own with representative labels,
in which other positives count as negatives (PULSNAR, Kumar and Lambert 2024). The sum over clusters
is α for any rates. Where labels are representative, it is a poorer estimate than that of `auto`,
and it mistakes the overlap of classes for positives; so the two are averaged by the probability
that labels are not representative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray
from ..score.classifiers import Training, paper_networks
from ..score.model import fit_scaling
from ..score.sketch import Sketch
from .auto import ALPHA, DRAWS, LEVEL, Belief, Evidence, auto, believe
from .base import Estimate, Samples, Settings, register
from .bound import WIDTH, best_bins

CLUSTERS = (6, 9, 12, 16)  # the estimates are averaged
MIN_ROWS = 100  # labeled; with fewer, the answer is that of `auto`
MIN_ALPHA = 0.025  # by `auto`, below which the fractions of clusters come out far too high
MIN_MEMBERS = 4  # labeled rows of a cluster
MAX_ROWS = 5000  # of each table
CLEAR = 0.3  # the density ratio from which an unlabeled row has full weight in clustering
MAX_WEIGHT = 20.0  # of a labeled row, in medians
NOISE_FACTOR = 4.0  # clusters labeled at less than so many times the rate of wrong labels are wrong
# Close to the belief that the regression below was fitted on, which had another prior
PURITY, POWER = 0.3, 1.0  # of the top, and of the likelihood
CLEAN = Settings(beta=1.0)  # of a cluster: wrong labels have been set aside
RATES = np.geomspace(0.003, 0.95, 60)  # common rates that are tried
# Logistic regression of "labels are not representative" on benchmarks/selection.py, see Signs
INTERCEPT, SPREAD, AUC, OPEN, MISFIT = -45.9, 1.58, 38.1, 5.74, 0.239
# Added to the log-odds because the user chose the method: nothing where classes overlap, as the sum
# is wrong there, and all of it from the higher AUC on
CHOSEN, OVERLAPPING, APART = 3.0, 0.90, 0.94
WARN_FROM = 0.3  # log-odds

CENTERS = 400  # kernels
KERNEL_WIDTH = 0.3  # the variance of a kernel in medians of the squared distances
RIDGE = 1e-3
STARTS, STEPS = 3, 30  # of k-means


@dataclass(frozen=True)
class Tables:
    """Scaled rows, labeled first, with the density ratio g/f of all labeled to unlabeled rows."""

    rows: FloatArray  # (n, d)
    n_labeled: int
    ratio: FloatArray  # (n,), out of fold
    sketch: Sketch  # of the scores
    floor: float  # the ratio where there are negatives only, (1-β)/(1-α)
    kept: BoolArray  # (n_labeled,): the labeled rows that are not like the negatives


class Part(NamedTuple):
    """A cluster of labeled rows against all unlabeled rows."""

    fraction: float  # of the labeled rows
    alpha: float  # the fraction of its positives among the unlabeled rows
    log_likelihood: FloatArray  # of that fraction, on ALPHA
    belief: Belief

    @property
    def rate(self) -> float:
        """The rate at which its positives are labeled, relative to all rows."""
        return self.fraction / self.alpha


@dataclass(frozen=True)
class Signs:
    """What tells unequal rates from representative labels, and from classes that overlap."""

    spread: float  # of the clusters' log rates, weighted by their fraction of the unlabeled rows
    misfit: float  # the log-likelihood that one common rate costs
    auc: float  # of positives against negatives by `auto`: lower where classes overlap
    open: float  # the length of `auto`'s interval of log α: short with representative labels

    @property
    def log_odds(self) -> float:
        """The log-odds that labels are not representative."""
        terms = SPREAD * self.spread + AUC * self.auc + OPEN * self.open + MISFIT * self.misfit
        return INTERCEPT + terms

    @property
    def leaning(self) -> float:
        """The log-odds added because the user chose the method."""
        return CHOSEN * min(max((self.auc - OVERLAPPING) / (APART - OVERLAPPING), 0.0), 1.0)


@dataclass(frozen=True)
class Divided:
    """The estimate of `auto`, and several divisions of the labeled rows into clusters."""

    plain: Estimate
    divisions: list[list[Part]]
    signs: Signs | None  # None if there are too few rows

    @property
    def alpha(self) -> float:
        """The sum over clusters, on average over divisions."""
        return float(np.mean([sum(part.alpha for part in parts) for parts in self.divisions]))


@register("subclasses", needs="features")
def subclasses(samples: Samples, settings: Settings) -> Estimate:
    """Kinds of positives that are labeled at unequal rates: a fraction for each kind, added up."""
    return answer(divide(samples, settings))


def divide(samples: Samples, settings: Settings) -> Divided:
    """Score the rows, cut the labeled ones into clusters and estimate the fraction of each."""
    rng = np.random.default_rng([settings.seed, 2])
    tables = _tables(samples, settings, rng)
    known = replace(settings, purity=None, alpha_between=None, beta_between=None)
    plain = auto(tables.sketch, known)
    few = tables.kept.sum() < MIN_ROWS or plain.alpha < MIN_ALPHA
    if few or tables.sketch.auc <= 0.5:
        return Divided(plain, [], None)
    ratios = Ratios(tables.rows, tables.n_labeled, rng)
    divisions = [_parts(tables, ratios, clusters, rng) for clusters in CLUSTERS]
    evidence = Evidence.from_sketch(tables.sketch, POWER)
    belief, _, _ = believe(tables.sketch, replace(known, purity=PURITY), evidence)
    low, alpha, high = belief.alphas(np.array([(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
    excess = max(belief.means[1] - alpha, 0.1)
    signs = Signs(
        spread=float(np.mean([_spread(parts) for parts in divisions])),
        misfit=float(np.mean([_misfit(parts) for parts in divisions])),
        auc=min(0.5 + (tables.sketch.auc - 0.5) / excess, 1.0),
        open=float(np.log(high / max(low, 1e-4))),
    )
    return Divided(plain, divisions, signs)


def answer(divided: Divided) -> Estimate:
    """The mean of `auto` and of the sums; draws are of both, in proportion to their weights."""
    plain, signs = divided.plain, divided.signs
    if signs is None:
        return plain
    weight = 1 / (1 + math.exp(-signs.log_odds - signs.leaning))
    alpha = min((1 - weight) * plain.alpha + weight * divided.alpha, plain.beta)
    draws = np.array(plain.draws)
    replaced = np.linspace(0, DRAWS - 1, round(weight * DRAWS)).round().astype(int)
    draws[replaced, 0] = np.minimum(_draw_sums(divided.divisions), draws[:, 1])[replaced]
    draws = draws[np.argsort(draws[:, 0], kind="stable")]
    low, high = np.quantile(draws[:, 0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    notice = Notice(
        "labels-not-typical",
        "some kinds of rows seem to be labeled far more often than others, so methods that assume "
        "representative labels are off",
    )
    return Estimate(
        alpha=alpha,
        beta=plain.beta,
        alpha_ci=(min(float(low), alpha), max(float(high), alpha)),
        beta_ci=plain.beta_ci,
        notices=() if signs.log_odds < WARN_FROM else (notice,),
        draws=tuple(map(tuple, draws.tolist())),
        representative=False,
    )


def _draw_sums(divisions: list[list[Part]]) -> FloatArray:
    """Equally likely sums in increasing order, shape (DRAWS,), with the parts independent."""
    rng = np.random.default_rng(0)
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    sums = [
        np.sum([rng.permutation(part.belief.alphas(levels)) for part in parts], axis=0)
        for parts in divisions
    ]
    return np.asarray(np.quantile(np.concatenate(sums), levels))


def _spread(parts: list[Part]) -> float:
    log_rates = np.log(np.array([part.rate for part in parts]))
    center = np.average(log_rates, weights=np.array([part.fraction for part in parts]))
    alphas = np.array([part.alpha for part in parts])
    return float(np.sqrt(np.average((log_rates - center) ** 2, weights=alphas)))


def _misfit(parts: list[Part]) -> float:
    at = [np.interp(np.log(p.fraction * RATES), np.log(ALPHA), p.log_likelihood) for p in parts]
    return float(sum(p.log_likelihood.max() for p in parts) - np.sum(at, axis=0).max())


# ---- Rows and their clusters


def _tables(samples: Samples, settings: Settings, rng: np.random.Generator) -> Tables:
    """Score at most MAX_ROWS of each table; the order of the rows does not matter."""
    parts = []
    for table in (samples.labeled, samples.unlabeled):
        in_order = table[np.lexsort(table.T)]
        parts.append(in_order[np.sort(rng.permutation(len(table))[:MAX_ROWS])])
    both, n_labeled = np.concatenate(parts), len(parts[0])
    rows = fit_scaling(both).apply(both)
    labeled = np.arange(len(rows)) < n_labeled
    scores = np.full(len(rows), 0.5)
    if min(map(len, parts)) > 1:
        training = Training(rows, labeled)
        fit = paper_networks(
            training, seed=settings.seed, threads=1, progress=lambda fraction: None
        )
        scores = np.clip(fit.scores, 1e-4, 1 - 1e-4)
    ratio = scores / (1 - scores)  # both samples have the same weight in training
    sketch = Sketch.from_rows(scores, labeled, samples.labeled_class)
    floor = float(best_bins(sketch.labeled, sketch.unlabeled, WIDTH)[0])
    kept = ratio[:n_labeled] > floor
    return Tables(rows.astype(np.float64), n_labeled, ratio, sketch, floor, kept)


def _parts(tables: Tables, ratios: Ratios, clusters: int, rng: np.random.Generator) -> list[Part]:
    """The parts of one division of the labeled rows into clusters, without wrong labels.

    Clusters are placed where the unlabeled positives are: by unlabeled rows with a clear ratio, and
    by labeled rows weighted as if they were unlabeled.
    """
    labeled_ratio, unlabeled_ratio = np.split(tables.ratio, [tables.n_labeled])
    kept = tables.kept
    likely = np.clip((unlabeled_ratio - 1.5 * tables.floor) / CLEAR, 0, 1)
    weights = np.minimum(np.median(labeled_ratio[kept]) / labeled_ratio[kept], MAX_WEIGHT)
    weights *= max(likely.sum(), 1.0) / weights.sum()
    rows = tables.rows[np.concatenate([kept, likely > 0])]
    centers = k_means(rows, np.concatenate([weights, likely[likely > 0]]), clusters, rng)
    cluster = np.full(tables.n_labeled, -1)
    cluster[kept] = assign(rows[: kept.sum()], centers, MIN_MEMBERS)
    parts = [_part(ratios, cluster == j) for j in range(cluster.max() + 1)]
    return [part for part in parts if part.rate > NOISE_FACTOR * tables.floor] or parts


def _part(ratios: Ratios, members: BoolArray) -> Part:
    sketch = Sketch.from_samples(*ratios.at(members))
    evidence = Evidence.from_sketch(sketch, POWER)
    belief, _, _ = believe(sketch, CLEAN, evidence)
    alpha = float(belief.alphas(np.array([0.5]))[0])
    return Part(float(members.mean()), alpha, evidence.log_likelihood[:, -1], belief)


class Ratios:
    """Density ratios g/f of the rows of two tables, the first `n_labeled` of them labeled.

    The ratio of the density of some labeled rows to that of the unlabeled rows is fitted as a sum
    of kernels by least squares (uLSIF, Kanamori, Hido and Sugiyama 2009). The labeled rows enter as
    one vector of the normal equations, so other labeled rows cost one product of a matrix and a
    vector, and leaving a row out has a closed form.
    """

    def __init__(self, rows: FloatArray, n_labeled: int, rng: np.random.Generator) -> None:
        """Rows have shape (n, d) and comparable columns."""
        centers = rows[rng.permutation(len(rows))[:CENTERS]]
        squares = _squared_distances(rows, centers)
        variance = KERNEL_WIDTH * max(float(np.median(squares)), 1e-12)
        kernels = np.exp(-squares / (2 * variance))
        self._design = np.column_stack([kernels, np.ones(len(rows))])
        self._n_labeled = n_labeled
        unlabeled = self._design[n_labeled:]
        second_moments = unlabeled.T @ unlabeled / max(len(unlabeled), 1)
        self._inverse = np.linalg.inv(second_moments + RIDGE * np.eye(len(second_moments)))
        self._leverage = ((self._design @ self._inverse) * self._design).sum(1)

    def at(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The ratio of some labeled rows, `members` of shape (n_labeled,), to the unlabeled rows.

        Returns
        -------
        at the members and at the unlabeled rows, shapes (members,) and (n_unlabeled,)
            Each by the fit without the row itself.
        """
        chosen = np.flatnonzero(members)
        ratio = self._design @ (self._inverse @ self._design[chosen].mean(0))
        n, m = len(chosen), len(ratio) - self._n_labeled
        without = (n * ratio[chosen] - self._leverage[chosen]) / max(n - 1, 1)
        leverage = np.minimum(self._leverage[self._n_labeled :], m / 2)
        return without, ratio[self._n_labeled :] * m / (m - leverage)


# ---- k-means of weighted rows; scikit-learn's would depend on the number of threads


def k_means(rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """The centers, shape (k, d), of the best of several starts; rows (n, d), weights (n,)."""
    starts = [_from_one_start(rows, weights, k, rng) for _ in range(STARTS)]
    return min(
        starts, key=lambda centers: float(weights @ _squared_distances(rows, centers).min(1))
    )


def _from_one_start(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    centers = _first_centers(rows, weights, k, rng)
    nearest = np.full(len(rows), -1)
    for _ in range(STEPS):
        previous, nearest = nearest, _squared_distances(rows, centers).argmin(1)
        if (nearest == previous).all():
            break
        member = (nearest[:, None] == np.arange(k)) * weights[:, None]
        total = member.sum(0)[:, None]
        centers = np.where(total > 0, (member.T @ rows) / np.maximum(total, 1e-300), centers)
    return centers


def _first_centers(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    """Rows drawn far from each other (k-means++, Arthur and Vassilvitskii 2007), shape (k, d)."""
    chance, chosen = weights, list[int]()
    for _ in range(k):
        if chance.sum() <= 0:  # fewer distinct rows than centers
            chance = weights
        chosen.append(int(rng.choice(len(rows), p=chance / chance.sum())))
        chance = weights * _squared_distances(rows, rows[chosen]).min(1)
    return rows[chosen]


def assign(rows: FloatArray, centers: FloatArray, min_rows: int) -> IntArray:
    """The nearest center of each row, shape (n,), counted from 0.

    Centers with fewer than `min_rows` of the rows are dropped, the emptiest first.
    """
    distances = _squared_distances(rows, centers)
    while True:
        nearest = distances.argmin(1)
        counts = np.bincount(nearest, minlength=distances.shape[1])
        if distances.shape[1] == 1 or counts.min() >= min_rows:
            return nearest
        distances = np.delete(distances, counts.argmin(), axis=1)


def _squared_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """The squared distance of each row from each center, shape (n, centers)."""
    lengths = (rows**2).sum(1)[:, None] + (centers**2).sum(1)
    return np.asarray(np.maximum(lengths - 2 * rows @ centers.T, 0))
