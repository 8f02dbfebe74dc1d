"""Ratios of densities by least squares, for many samples against the same unlabeled rows.

The ratio of the density of some labeled rows to that of the unlabeled ones is fitted as a sum of
kernels (uLSIF, Kanamori, Hido and Sugiyama 2009). Which labeled rows they are is one vector of the
normal equations, so another sample costs a product of a matrix and a vector, and what the fit would
say of a row without having seen it is known exactly.

Clusters of weighted rows by k-means; scikit-learn's would depend on the number of threads.

Positives of several kinds, each labeled at a rate of its own: a share for each, added up.

The labeled rows are cut into clusters. If all positives of a cluster are as likely to be labeled,
the cluster against all unlabeled rows is a problem of its own with typical labels, in which other
positives count as negatives (PULSNAR, Kumar and Lambert 2024). The sum is α whatever the rates.
Where labels are typical it is a poorer estimate than `auto`, and where the classes overlap it takes
the overlap for positives; so the two are averaged by how likely it is that labels are not typical.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray
from ..score.classifiers import Training
from ..score.model import fit_scaling
from ..score.networks import networks
from ..score.sketch import Sketch
from .auto import ALPHA, DRAWS, LEVEL, Belief, Evidence, auto, believe
from .base import Estimate, Samples, Settings, register
from .bound import WIDTH, best_bins

CENTERS = 400  # kernels
KERNEL_WIDTH = 0.3  # of a kernel: its variance in medians of the squared distances
RIDGE = 1e-3


class Ratios:
    """Ratios g/f of the rows of two tables, the first `n_labeled` of them labeled."""

    def __init__(self, rows: FloatArray, n_labeled: int, rng: np.random.Generator) -> None:
        """Rows have shape (n, d) and comparable columns."""
        centers = rows[rng.permutation(len(rows))[:CENTERS]]
        squares = squared_distances(rows, centers)
        variance = KERNEL_WIDTH * max(float(np.median(squares)), 1e-12)
        kernels = np.exp(-squares / (2 * variance))
        self._design = np.column_stack([kernels, np.ones(len(rows))])
        self._n_labeled = n_labeled
        of_unlabeled = self._design[n_labeled:]
        second_moments = of_unlabeled.T @ of_unlabeled / max(len(of_unlabeled), 1)
        self._inverse = np.linalg.inv(second_moments + RIDGE * np.eye(len(second_moments)))
        self._leverage = ((self._design @ self._inverse) * self._design).sum(1)

    def of(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The ratio at the members, some of the labeled rows (n_labeled,), and at all unlabeled.

        Each by the fit without the row itself; shapes (members,) and (n_unlabeled,).
        """
        chosen = np.flatnonzero(members)
        ratio = self._design @ (self._inverse @ self._design[chosen].mean(0))
        n, m = len(chosen), len(ratio) - self._n_labeled
        own = (n * ratio[chosen] - self._leverage[chosen]) / max(n - 1, 1)
        leverage = np.minimum(self._leverage[self._n_labeled :], m / 2)
        return own, ratio[self._n_labeled :] * m / (m - leverage)


def squared_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Of each row from each center, shape (n, centers)."""
    lengths = (rows**2).sum(1)[:, None] + (centers**2).sum(1)
    return np.asarray(np.maximum(lengths - 2 * rows @ centers.T, 0))


STARTS = 3
STEPS = 30


def k_means(rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """The centers, shape (k, d), of the best of several starts; rows (n, d), weights (n,)."""
    found = [_from_one_start(rows, weights, k, rng) for _ in range(STARTS)]
    return min(found, key=lambda centers: _loss(rows, weights, centers))


def _loss(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> float:
    return float(weights @ squared_distances(rows, centers).min(1))


def _from_one_start(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    centers = _first_centers(rows, weights, k, rng)
    nearest: IntArray | None = None
    for _ in range(STEPS):
        now = squared_distances(rows, centers).argmin(1)
        if nearest is not None and (now == nearest).all():
            break
        nearest = now
        member = (nearest[:, None] == np.arange(k)) * weights[:, None]
        total = member.sum(0)[:, None]
        centers = np.where(total > 0, (member.T @ rows) / np.maximum(total, 1e-300), centers)
    return centers


def _first_centers(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    """Rows drawn far from each other (k-means++, Arthur and Vassilvitskii 2007), shape (k, d)."""
    chance, chosen = weights, [0] * k
    for i in range(k):
        if chance.sum() <= 0:  # fewer distinct rows than centers
            chance = weights
        chosen[i] = int(rng.choice(len(rows), p=chance / chance.sum()))
        chance = weights * squared_distances(rows, rows[chosen[: i + 1]]).min(1)
    return rows[chosen]


def assigned(rows: FloatArray, of_interest: int, centers: FloatArray, least: int) -> IntArray:
    """The nearest center of the first rows, shape (of_interest,), counted from 0.

    A center with fewer than `least` of these rows is given up, the emptiest first.
    """
    distances = squared_distances(rows[:of_interest], centers)
    while True:
        nearest = distances.argmin(1)
        counts = np.bincount(nearest, minlength=distances.shape[1])
        if distances.shape[1] == 1 or counts.min() >= least:
            return nearest
        distances = np.delete(distances, counts.argmin(), axis=1)


NUMBERS = (6, 9, 12, 16)  # of clusters; the estimates are averaged
LEAST_ROWS = 100  # labeled, with fewer of which nothing but `auto` is said
LEAST_ALPHA = 0.025  # by `auto`, below which the shares of clusters come out far too high
LEAST_MEMBERS = 4  # labeled rows of a cluster
MAX_ROWS = 5000  # of each table
CLEAR = 0.3  # the ratio of densities from which an unlabeled row helps to place clusters in full
HEAVIEST = 20.0  # the largest weight of a labeled row, in medians
NOISE_FACTOR = 4.0  # clusters labeled at less than so many times the rate of wrong labels are wrong
CLEAN = Settings(beta=1.0, purity=0.0)  # of a cluster: wrong labels have been set aside
RATES = np.geomspace(0.003, 0.95, 60)  # common rates that are tried
# Logistic regression of "labels are not typical" on benchmarks/selection.py, see Signs
INTERCEPT, SPREAD, AUC, OPEN, MISFIT = -45.9, 1.58, 38.1, 5.74, 0.239
# added to the log-odds because the method was asked for: nothing where classes overlap, as no wish
# makes the sum right there, and all from the higher AUC on
CHOSEN, OVERLAPPING, APART = 3.0, 0.90, 0.94
WARN_FROM = 0.3  # log-odds


@dataclass(frozen=True)
class Tables:
    """Scaled rows, labeled first, with the ratio of densities g/f of all labeled to unlabeled."""

    rows: FloatArray  # (n, d)
    n_labeled: int
    ratio: FloatArray  # (n,), honest
    sketch: Sketch  # of it

    @cached_property
    def floor(self) -> float:
        """The ratio where there are negatives only, (1-β)/(1-α)."""
        return float(best_bins(self.sketch.labeled, self.sketch.unlabeled, WIDTH)[0])

    @cached_property
    def kept(self) -> BoolArray:
        """The labeled rows that are not like the negatives, shape (n_labeled,)."""
        return np.asarray(self.ratio[: self.n_labeled] > self.floor)


@dataclass(frozen=True)
class Part:
    """A cluster of labeled rows against all unlabeled ones."""

    share: float  # of the labeled rows
    log_likelihood: FloatArray  # of its share of the unlabeled rows, on ALPHA
    belief: Belief  # in that

    @cached_property
    def alpha(self) -> float:
        """Its share of the unlabeled rows."""
        return float(self.belief.alphas(np.array([0.5]))[0])

    @property
    def rate(self) -> float:
        """At which its rows are labeled, relative to those of both tables."""
        return self.share / self.alpha


@register("subclasses", needs="features")
def subclasses(samples: Samples, settings: Settings) -> Estimate:
    """Kinds of positives that are labeled at unequal rates: a share for each kind, added up."""
    return answer(divide(samples, settings))


# Rows and their clusters


@dataclass(frozen=True)
class Divided:
    """What `auto` says, and several divisions of the labeled rows into clusters."""

    plain: Estimate
    divisions: list[list[Part]]
    signs: Signs | None  # that labels are not typical; none where rows are too few

    @cached_property
    def alpha(self) -> float:
        """The shares of the clusters added up, on average over divisions."""
        return float(np.mean([sum(part.alpha for part in parts) for parts in self.divisions]))


def divide(samples: Samples, settings: Settings) -> Divided:
    """Score the rows, cut the labeled ones into clusters and estimate the share of each."""
    rng = np.random.default_rng([settings.seed, 2])
    tables = _tables(samples, settings, rng)
    known = replace(settings, purity=Settings.purity, alpha_between=None, beta_between=None)
    plain = auto(tables.sketch, known)
    few = tables.kept.sum() < LEAST_ROWS or plain.alpha < LEAST_ALPHA
    if few or tables.sketch.auc <= 0.5:
        return Divided(plain, [], None)
    ratios = Ratios(tables.rows, tables.n_labeled, rng)
    divisions = [_parts(tables, ratios, number, rng) for number in NUMBERS]
    return Divided(plain, divisions, Signs.of(divisions, plain, tables.sketch))


def _tables(samples: Samples, settings: Settings, rng: np.random.Generator) -> Tables:
    """At most MAX_ROWS of each table, whatever order they come in."""
    both = [_drawn(rows, rng) for rows in (samples.labeled, samples.unlabeled)]
    table = np.concatenate(both)
    rows = fit_scaling(table).apply(table)
    labeled = np.arange(len(rows)) < len(both[0])
    scores = np.full(len(rows), 0.5)
    if min(map(len, both)) > 1:
        training = Training(rows, labeled)
        fit = networks(training, seed=settings.seed, threads=1, progress=lambda share: None)
        scores = np.clip(fit.scores, 1e-4, 1 - 1e-4)
    # both kinds of row weigh the same in training, so the odds of the score are g/f
    ratio = scores / (1 - scores)
    return Tables(
        rows.astype(np.float64),
        len(both[0]),
        ratio,
        Sketch.from_rows(scores, labeled, samples.labeled_class),
    )


def _drawn(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    in_order = rows[np.lexsort(rows.T)]
    return in_order[np.sort(rng.permutation(len(rows))[:MAX_ROWS])]


def _parts(tables: Tables, ratios: Ratios, number: int, rng: np.random.Generator) -> list[Part]:
    """The parts of one division of the labeled rows into clusters, wrong labels set aside.

    Clusters are placed where the unlabeled positives are: by unlabeled rows with a clear ratio, and
    by labeled ones weighted as if they were unlabeled.
    """
    of_labeled, of_unlabeled = np.split(tables.ratio, [tables.n_labeled])
    kept = tables.kept
    likely = np.clip((of_unlabeled - 1.5 * tables.floor) / CLEAR, 0, 1)
    weights = np.minimum(np.median(of_labeled[kept]) / of_labeled[kept], HEAVIEST)
    weights *= max(likely.sum(), 1.0) / weights.sum()
    seen = np.concatenate([kept, likely > 0])
    rows, n_kept = tables.rows[seen], int(kept.sum())
    centers = k_means(rows, np.concatenate([weights, likely[likely > 0]]), number, rng)
    cluster = np.full(tables.n_labeled, -1)
    cluster[kept] = assigned(rows, n_kept, centers, LEAST_MEMBERS)
    parts = [_part(tables, ratios, cluster == j) for j in range(cluster.max() + 1)]
    true = [part for part in parts if part.rate > NOISE_FACTOR * tables.floor]
    return true or parts


def _part(tables: Tables, ratios: Ratios, members: BoolArray) -> Part:
    sketch = Sketch.from_samples(*ratios.of(members))
    evidence = Evidence.from_sketch(sketch)
    belief, _, _ = believe(sketch, CLEAN, evidence)
    return Part(float(members.sum() / tables.n_labeled), evidence.log_likelihood[:, -1], belief)


# Whether labels are typical


@dataclass(frozen=True)
class Signs:
    """What tells unequal rates from typical labels, and from classes that overlap."""

    spread: float  # of the clusters' log rates, weighted by their share of the unlabeled rows
    misfit: float  # the log-likelihood that one common rate costs
    auc: float  # of positives against negatives by `auto`: lower where classes overlap
    open: float  # the length of `auto`'s interval of log α: short where labels are typical

    @classmethod
    def of(cls, divisions: list[list[Part]], plain: Estimate, sketch: Sketch) -> Signs:
        """The mean over divisions of the labeled rows into clusters."""
        low, high = plain.alpha_ci or (plain.alpha, plain.alpha)
        return cls(
            float(np.mean([_spread(parts) for parts in divisions])),
            float(np.mean([_misfit(parts) for parts in divisions])),
            min(0.5 + (sketch.auc - 0.5) / max(plain.beta - plain.alpha, 0.1), 1.0),
            float(np.log(high / max(low, 1e-4))),
        )

    @property
    def log_odds(self) -> float:
        """That labels are not typical."""
        terms = SPREAD * self.spread + AUC * self.auc + OPEN * self.open + MISFIT * self.misfit
        return INTERCEPT + terms

    @property
    def leaning(self) -> float:
        """What is added to the log-odds because the method was asked for."""
        return CHOSEN * min(max((self.auc - OVERLAPPING) / (APART - OVERLAPPING), 0.0), 1.0)


def _spread(parts: list[Part]) -> float:
    alpha, share, rate = (
        np.array([getattr(p, x) for p in parts]) for x in ("alpha", "share", "rate")
    )
    center = np.average(np.log(rate), weights=share)
    return float(np.sqrt(np.average((np.log(rate) - center) ** 2, weights=alpha)))


def _misfit(parts: list[Part]) -> float:
    at = [np.interp(np.log(p.share * RATES), np.log(ALPHA), p.log_likelihood) for p in parts]
    return float(sum(p.log_likelihood.max() for p in parts) - np.sum(at, axis=0).max())


# The answer


def answer(found: Divided) -> Estimate:
    """The mean of `auto` and of the sums; draws are of both, in proportion to their weights."""
    plain = found.plain
    if found.signs is None:
        return plain
    weight = 1 / (1 + math.exp(-found.signs.log_odds - found.signs.leaning))
    alpha = min((1 - weight) * plain.alpha + weight * found.alpha, plain.beta)
    draws = np.array(plain.draws)
    replaced = np.linspace(0, DRAWS - 1, round(weight * DRAWS)).round().astype(int)
    draws[replaced, 0] = np.minimum(_summed(found.divisions, DRAWS), draws[:, 1])[replaced]
    draws = draws[np.argsort(draws[:, 0], kind="stable")]
    low, high = np.quantile(draws[:, 0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(
        alpha=alpha,
        beta=plain.beta,
        alpha_ci=(min(float(low), alpha), max(float(high), alpha)),
        beta_ci=plain.beta_ci,
        notices=_warned(found.signs.log_odds),
        draws=tuple(map(tuple, draws.tolist())),
        representative=False,
    )


def _warned(log_odds: float) -> tuple[Notice, ...]:
    if log_odds < WARN_FROM:
        return ()
    return (
        Notice(
            "labels-not-typical",
            "kinds of labeled rows seem to be labeled at rates that contradict each other, so "
            "that they are no random sample of their class",
        ),
    )


def _summed(divisions: list[list[Part]], n: int) -> FloatArray:
    """Equally likely sums, in order, shape (n,): the parts' beliefs are drawn from side by side."""
    rng = np.random.default_rng(0)
    levels = (np.arange(n) + 0.5) / n
    sums = [
        np.sum([rng.permutation(part.belief.alphas(levels)) for part in parts], axis=0)
        for parts in divisions
    ]
    return np.asarray(np.quantile(np.concatenate(sums), levels))
