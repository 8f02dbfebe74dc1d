"""Pairs of score samples with a known α and β, as wide a range of them as real scores span.

Two sources of class-conditional score distributions. `univariate` draws them from families of
densities, ranked by their likelihood ratio or left as they are. `learned` draws a feature table,
trains a classifier of labeled against unlabeled rows on a sample of it and takes the scores of
fresh rows: rankings as imperfect as those of real out-of-bag scores, with the tails of real ones.
`weak` tables are like those of biology: noisy classes, errors of assays, columns that say nothing,
few labels, many unlabeled rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special, stats

from pu_noise_cli.prior.auto import (
    DEFAULT,
    MIN_EXCESS,
    SIMULATED,
    SharePrior,
    top_cells,
)
from pu_noise_cli.score.sketch import Sketch

FloatArray = NDArray[np.float64]
Rng = np.random.Generator

GRID = 3000  # cells of a density
POOL_CELLS = 1500  # cells of the smoothed scores of a feature table
TOP = 0.05  # of a class: its purest rows


@dataclass(frozen=True)
class Classes:
    """The score distributions of the two classes on common cells, low to high, each (cells,)."""

    negatives: FloatArray
    positives: FloatArray

    @classmethod
    def of(cls, negatives: FloatArray, positives: FloatArray) -> Classes:
        return cls(negatives / negatives.sum(), positives / positives.sum())

    @property
    def auc(self) -> float:
        return float(self.positives @ (np.cumsum(self.negatives) - self.negatives / 2))

    @property
    def containment(self) -> float:
        """How much of one class looks like the purest rows of the other, at the worse end."""
        return max(
            _least_ratio(self.negatives[::-1], self.positives[::-1]),
            _least_ratio(self.positives, self.negatives),
        )

    @property
    def plausibility(self) -> float:
        """How often such classes are met in practice, relative to others.

        It is rare that a score tells most rows apart and yet leaves a part of one class inside the
        other (no method could then find α), and that it hardly tells the classes apart at all.
        """
        distance = np.sqrt(2) * stats.norm.ppf(np.clip(self.auc, 0.5, 1 - 1e-9))
        of_normals = stats.norm.sf(distance + stats.norm.isf(TOP)) / TOP
        excess = max(self.containment - of_normals, 0.0)
        tolerated = np.interp(self.auc, [0.75, 0.95], [0.5, 0.05])
        return float(np.interp(self.auc, [0.6, 0.8], [0.7, 1.0]) * np.exp(-excess / tolerated))


def _least_ratio(f: FloatArray, g: FloatArray) -> float:
    """The least ratio of the mass of f to that of g above a threshold with TOP of g above it."""
    above = np.cumsum(g) >= TOP
    return float((np.cumsum(f)[above] / np.cumsum(g)[above]).min())


@dataclass(frozen=True)
class Problem:
    """Two samples with the shares of positives that they do have."""

    sketch: Sketch
    alpha: float
    beta: float
    purity: float  # the share of positives among the unlabeled rows at the top, see assumptions.TOP


def draw(
    classes: Classes, alpha: float, beta: float, n_labeled: int, n_unlabeled: int, rng: Rng
) -> Problem:
    """Samples of both kinds; their shares of positives are as near as whole rows allow."""

    def counts(share: float, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of the positives and of the negatives in each cell."""
        positive = round(share * n)
        drawn = rng.multinomial(positive, classes.positives)
        return drawn, rng.multinomial(n - positive, classes.negatives)

    (l1, l0), (u1, u0) = counts(beta, n_labeled), counts(alpha, n_unlabeled)
    labeled, unlabeled = l1 + l0, u1 + u0
    seen = np.flatnonzero(labeled + unlabeled)
    counts = np.column_stack([unlabeled, labeled, np.zeros_like(labeled)])
    sketch = Sketch(seen.astype(float), counts[seen])
    top = top_cells(sketch)
    purity = u1[seen][top].sum() / max(unlabeled[seen][top].sum(), 1)
    return Problem(sketch, u1.sum() / n_unlabeled, l1.sum() / n_labeled, float(purity))


# Shares and sizes


def draw_shares(rng: Rng, prior: SharePrior = DEFAULT) -> tuple[float, float]:
    """α and β as a prior has them, by default the one that `auto` assumes."""
    while True:
        if rng.random() < prior.small:
            alpha = log_uniform(rng, *prior.small_alpha)
        else:
            alpha = 1 - rng.random() ** (1 / (1 + prior.fall))
        piece = rng.choice(len(prior.beta), p=[share for share, _, _ in prior.beta])
        beta = rng.uniform(*prior.beta[piece][1:])
        if beta - alpha >= MIN_EXCESS:
            return float(alpha), float(beta)


def log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_sizes(rng: Rng) -> tuple[int, int]:
    """Numbers of labeled and unlabeled rows: mostly hundreds to ten thousands, up to a million."""
    if rng.random() < 0.8:
        return int(log_uniform(rng, 50, 5e3)), int(log_uniform(rng, 200, 3e4))
    return int(log_uniform(rng, 20, 5e4)), int(log_uniform(rng, 50, 1e6))


# Univariate densities


def _standard(family: str, x: FloatArray, rng: Rng) -> FloatArray:
    """The log-density at x of a member of the family with about unit scale."""
    if family == "normal":
        return np.asarray(stats.norm.logpdf(x))
    if family == "laplace":
        return np.asarray(stats.laplace.logpdf(x, scale=0.8))
    if family == "logistic":
        return np.asarray(stats.logistic.logpdf(x, scale=0.6))
    if family == "student":
        return np.asarray(stats.t.logpdf(x, log_uniform(rng, 2, 12)))
    if family == "skew":
        return np.asarray(stats.skewnorm.logpdf(x, rng.normal(scale=4)))
    if family == "gamma":
        shape, sign = log_uniform(rng, 1, 12), rng.choice([-1, 1])
        scale = 1 / np.sqrt(shape)
        return np.asarray(stats.gamma.logpdf(sign * x + shape * scale, shape, scale=scale))
    k = rng.integers(2, 5)
    weights = rng.dirichlet(np.full(k, 1.5))
    centers, widths = rng.normal(scale=1.2, size=k), np.exp(rng.normal(-0.3, 0.4, size=k))
    parts = stats.norm.logpdf(x[:, None], centers, widths)
    return np.asarray(special.logsumexp(parts, axis=1, b=weights))


FAMILIES = ("normal", "laplace", "logistic", "student", "skew", "gamma", "mixture")


def univariate(rng: Rng) -> Classes:
    """Two densities of the same or different shape, near or far apart."""
    x = np.linspace(-14, 18, GRID)
    separation = rng.uniform(0.3, 5)
    scale = float(np.exp(rng.normal(scale=0.35)))
    first = str(rng.choice(FAMILIES))
    second = first if rng.random() < 0.6 else str(rng.choice(FAMILIES))
    seed = rng.integers(2**32)
    other = seed if rng.random() < 0.6 else seed + 1
    log0 = _standard(first, x, np.random.default_rng(seed))
    log1 = _standard(second, (x - separation) / scale, np.random.default_rng(other))
    f0, f1 = np.exp(log0 - log0.max()), np.exp(log1 - log1.max())
    f0, f1 = f0 / f0.sum(), f1 / f1.sum()
    if rng.random() < 0.04:  # a cluster of one class inside the other, unseen by the score
        hidden = rng.uniform(0, 0.05)
        if rng.random() < 0.5:
            f1 = (1 - hidden) * f1 + hidden * f0
        else:
            f0 = (1 - hidden) * f0 + hidden * f1
    return scored(f0, f1, rng)


def scored(f0: FloatArray, f1: FloatArray, rng: Rng) -> Classes:
    """The classes' densities ranked by their ratio, well or badly, or left as they are."""
    kind = rng.random()
    if kind < 0.5:
        f0, f1 = _ranked(f0, f1)
    elif kind < 0.8:
        f0, f1 = _noisily_ranked(f0, f1, log_uniform(rng, 0.05, 1.5))
    if rng.random() < 0.15:
        f0, f1 = _tied(f0, f1, rng)
    return Classes.of(f0, f1)


def _log_ratio(f0: FloatArray, f1: FloatArray) -> FloatArray:
    return np.log(f1 + 1e-300) - np.log(f0 + 1e-300)


def _ranked(f0: FloatArray, f1: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(_log_ratio(f0, f1), kind="stable")
    return f0[order], f1[order]


def _noisily_ranked(f0: FloatArray, f1: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """Ranked by log-ratio plus normal noise: a ranking learned from too few rows."""
    limit = 12.0
    ratio = np.clip(_log_ratio(f0, f1), -limit, limit)
    place = ((ratio + limit) / (2 * limit) * (GRID - 1)).astype(int)
    width = noise / (2 * limit) * GRID

    def blurred(f: FloatArray) -> FloatArray:
        counts = np.bincount(place, f, GRID)
        return np.asarray(ndimage.gaussian_filter1d(counts, width, mode="constant"))

    return blurred(f0), blurred(f1)


def _tied(f0: FloatArray, f1: FloatArray, rng: Rng) -> tuple[FloatArray, FloatArray]:
    """Few distinct scores: cells of about equal mass, or of equal width."""
    levels = int(log_uniform(rng, 6, 200))
    mass = np.cumsum(f0 + f1) / 2
    if rng.random() < 0.5:
        cell = (mass * (levels - 1e-9)).astype(int)
    else:
        inner = np.clip((np.arange(len(f0)) - np.searchsorted(mass, 0.002)) / len(f0), 0, None)
        last = max(inner[np.searchsorted(mass, 0.998) - 1], 1e-9)
        cell = np.minimum(inner / last * levels, levels).astype(int)
    return np.bincount(cell, f0), np.bincount(cell, f1)


# Feature tables and classifiers


def feature_table(n: int, rng: Rng, weak: bool = False) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Features of shape (n, d) and classes of shape (n,), by a random recipe."""
    d = int(log_uniform(rng, 2, 30))
    x, cluster = _clusters(n, d, rng)
    kind = rng.random()
    if kind < 0.4:
        y = _cluster_classes(cluster, rng)
    elif kind < 0.85:
        y = _threshold_classes(x, rng, weak)
    else:
        y = _leaf_classes(x, rng)
    if weak:
        rates = [log_uniform(rng, 1e-3, 0.2) if rng.random() < 0.5 else 0.0 for _ in range(2)]
        y = y ^ (rng.random(n) < np.where(y, *rates))
        x = np.hstack([x, rng.normal(size=(n, int(log_uniform(rng, 1, 60))))])
    if rng.random() < 0.05:  # rows of the wrong class: part of α that no score can see
        y = y ^ (rng.random(n) < rng.uniform(0, 0.03))
    return _measured(x, rng), y


def _clusters(n: int, d: int, rng: Rng) -> tuple[FloatArray, NDArray[np.intp]]:
    """Rows around centres, each cluster with its own covariance."""
    k = int(rng.integers(2, 16))
    cluster = rng.choice(k, size=n, p=rng.dirichlet(np.full(k, 2.0)))
    centers = rng.normal(size=(k, d)) * log_uniform(rng, 0.5, 3)
    rank = max(1, d // 2)
    x = np.empty((n, d))
    for j in range(k):
        rows = cluster == j
        m = int(rows.sum())
        factor = rng.normal(size=(rank, d)) / np.sqrt(rank)
        widths = np.exp(rng.normal(-0.7, 0.5, size=d))
        shared = rng.normal(size=(m, rank)) @ factor
        x[rows] = centers[j] + shared + rng.normal(size=(m, d)) * widths
    if rng.random() < 0.3:
        x /= np.sqrt(rng.chisquare(rng.uniform(3, 10), size=(n, 1)) / 6)
    return x, cluster


def _cluster_classes(cluster: NDArray[np.intp], rng: Rng) -> NDArray[np.bool_]:
    """Some clusters are the positives; sometimes a few of them are impure."""
    k = int(cluster.max()) + 1
    positive = rng.permutation(k) < rng.integers(1, max(2, k // 2 + 1))
    purity = np.ones(k)
    if rng.random() < 0.1:
        impure = rng.random(k) < 0.4
        purity[impure] = rng.uniform(0.8, 1, size=int(impure.sum()))
    share = np.where(positive, purity, 1 - purity)
    return np.asarray(rng.random(len(cluster)) < share[cluster])


def _threshold_classes(x: FloatArray, rng: Rng, weak: bool = False) -> NDArray[np.bool_]:
    """Positives are the rows on which a noisy function of the features is large."""
    n, d = x.shape
    z = (x - x.mean(0)) / x.std(0)
    used = rng.random(d) < rng.uniform(0.3, 1)
    used[rng.integers(d)] = True
    z = z[:, used]
    hidden = int(rng.integers(2, 12))
    bent = np.tanh(z @ rng.normal(size=(z.shape[1], hidden)) * log_uniform(rng, 0.2, 1.5))
    value = bent @ rng.normal(size=hidden)
    value = value / value.std()
    straight = z @ (rng.normal(size=z.shape[1]) * np.exp(rng.normal(size=z.shape[1])))
    value = value * rng.random() + straight / straight.std()
    noise = rng.standard_t(rng.uniform(3, 30), size=n)
    value = value / value.std() + noise * log_uniform(rng, 0.02, 2.5 if weak else 0.8)
    return np.asarray(value > np.quantile(value, rng.uniform(0.4, 0.85)))


def _leaf_classes(x: FloatArray, rng: Rng) -> NDArray[np.bool_]:
    """Positives are the leaves of a random tree, pure or nearly."""
    n, d = x.shape
    leaf = np.zeros(n, dtype=np.int64)
    for _ in range(int(rng.integers(2, 6))):
        j = rng.integers(d)
        cut = np.quantile(x[:, j], rng.uniform(0.2, 0.8))
        leaf = 2 * leaf + (x[:, j] > cut)
    _, leaf = np.unique(leaf, return_inverse=True)
    return _cluster_classes(leaf, rng)


def _measured(x: FloatArray, rng: Rng) -> FloatArray:
    """The features as they might be recorded: warped, rounded, censored, hidden, among others."""
    n, d = x.shape
    x = x[:, rng.random(d) < rng.uniform(0.7, 1.6)] if d > 2 else x
    if x.shape[1] == 0:
        x = rng.normal(size=(n, 1))
    x = (x - x.mean(0)) / x.std(0)
    for j in range(x.shape[1]):
        kind = rng.random()
        if kind < 0.15:
            x[:, j] = np.exp(np.clip(x[:, j], -4, 4))
        elif kind < 0.3:
            x[:, j] = np.round(x[:, j] * log_uniform(rng, 0.5, 4))
        elif kind < 0.4:
            x[:, j] = np.maximum(x[:, j], rng.normal(scale=0.7))
    if rng.random() < 0.4:
        x = np.hstack([x, rng.normal(size=(n, int(rng.integers(1, 10))))])
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    return np.clip(x, -8, 8)


def network_scores(
    x: FloatArray, labeled: NDArray[np.bool_], fresh: FloatArray, rng: Rng
) -> FloatArray:
    """Mean logits of a few bagged networks of five tanh units, trained with Adam, shape (n,)."""
    networks, units, batch = 12, 5, 256
    steps, decay = int(log_uniform(rng, 60, 400)), log_uniform(rng, 0.01, 0.5)
    d, width = x.shape[1], networks * units
    x32 = x.astype(np.float32)
    member = np.arange(width) // units
    spread = (np.arange(width), member)
    shapes = [(d, width), (width,), (width,), (networks,)]
    theta = [
        rng.normal(size=shapes[0]) / np.sqrt(d),
        np.zeros(width),
        rng.normal(size=width) / np.sqrt(units),
        np.zeros(networks),
    ]
    theta = [t.astype(np.float32) for t in theta]
    m, v = [np.zeros_like(t) for t in theta], [np.zeros_like(t) for t in theta]
    bag = rng.poisson(1.0, size=(len(x), networks)).astype(np.float32)
    rows = [np.flatnonzero(labeled), np.flatnonzero(~labeled)]
    out = np.zeros((width, networks), dtype=np.float32)
    half = batch // 2
    y = np.repeat(np.array([1, 0], dtype=np.float32), half)[:, None]
    for step in range(1, steps + 1):
        i = np.concatenate([rng.choice(r, half) for r in rows])
        out[spread] = theta[2]
        h = np.tanh(x32[i] @ theta[0] + theta[1])
        s = h @ out + theta[3]
        delta = (special.expit(s) - y) * bag[i] / batch
        back = (1 - h * h) * (delta @ out.T)
        gradient = [x32[i].T @ back, back.sum(0), (h.T @ delta)[spread], delta.sum(0)]
        rate = 0.02 * (1 - step / (steps + 1))
        for t, g, a, b in zip(theta, gradient, m, v, strict=True):
            a += 0.1 * (g - a)
            b += 0.01 * (g * g - b)
            adapted = (a / (1 - 0.9**step)) / (np.sqrt(b / (1 - 0.99**step)) + 1e-8)
            t -= rate * (adapted + decay * t)
    out[spread] = theta[2]
    logits = np.tanh(fresh.astype(np.float32) @ theta[0] + theta[1]) @ out + theta[3]
    return logits.mean(1).astype(np.float64)


CLASSIFIERS = ("boosting", "forest", "logistic", "neighbors", "bayes", "quadratic")


def _any_classifier(n: int, rng: Rng) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    name = str(rng.choice(CLASSIFIERS))
    seed = int(rng.integers(2**31))
    if name == "boosting":
        return HistGradientBoostingClassifier(
            learning_rate=0.08,
            max_iter=int(rng.integers(20, 60)),
            max_leaf_nodes=8,
            random_state=seed,
        )
    if name == "forest":
        return RandomForestClassifier(
            30, min_samples_leaf=int(rng.integers(1, 6)), random_state=seed
        )
    if name == "logistic":
        return LogisticRegression(
            C=log_uniform(rng, 0.01, 10), class_weight="balanced", max_iter=500
        )
    if name == "neighbors":
        return KNeighborsClassifier(int(min(n // 4, log_uniform(rng, 10, 80))))
    if name == "bayes":
        return GaussianNB()
    return QuadraticDiscriminantAnalysis(reg_param=0.1)


@dataclass(frozen=True)
class Learned:
    """The classes as a trained classifier scores them, and how much it was trained on."""

    classes: Classes
    n_labeled: int
    n_unlabeled: int


def learned(
    rng: Rng, classifier: Callable[[int, Rng], Any] | None = None, weak: bool = False
) -> Learned:
    """Train a classifier on a random feature table; the classes' scores of fresh rows.

    Mostly networks like those of the transform, else one of CLASSIFIERS; or what is given.
    """
    while True:
        x, y = feature_table(12_000, rng, weak)
        rows = {c: rng.permutation(np.flatnonzero(y == c)) for c in (True, False)}
        alpha, beta = draw_shares(rng, SIMULATED)
        n_labeled = int(log_uniform(rng, 50, 300) if weak else log_uniform(rng, 60, 2500))
        n_unlabeled = int(log_uniform(rng, 300, 5000))
        # what the training sample takes of each class; the rest is to be scored
        counts = [round(beta * n_labeled), round(alpha * n_unlabeled)]
        taken = {True: sum(counts), False: n_labeled + n_unlabeled - sum(counts)}
        if all(len(rows[c]) >= taken[c] + 1500 for c in rows):
            break
    train = np.concatenate(
        [
            rows[True][: counts[0]],
            rows[False][: n_labeled - counts[0]],
            rows[True][counts[0] : counts[0] + counts[1]],
            rows[False][n_labeled - counts[0] : taken[False]],
        ]
    )
    labeled = np.arange(len(train)) < n_labeled
    fresh = np.concatenate([rows[c][taken[c] :] for c in (False, True)])
    is_positive = np.arange(len(fresh)) >= len(rows[False]) - taken[False]
    if classifier is None and rng.random() < 0.65:
        scores = network_scores(x[train], labeled, x[fresh], rng)
    else:
        model = (classifier or _any_classifier)(len(train), rng)
        order = rng.permutation(len(train))
        scores = model.fit(x[train][order], labeled[order]).predict_proba(x[fresh])[:, 1]
    classes = _of_scores(scores[~is_positive], scores[is_positive])
    return Learned(classes, n_labeled, n_unlabeled)


def sizes_like(task: Learned, rng: Rng, most: float = 5) -> tuple[int, int]:
    """Numbers of labeled and unlabeled rows not far from those the classifier was trained on."""
    n_labeled = task.n_labeled * log_uniform(rng, 0.5, 2)
    n_unlabeled = task.n_unlabeled * log_uniform(rng, 0.5, most)
    return max(20, int(n_labeled)), max(50, int(n_unlabeled))


def _of_scores(negatives: FloatArray, positives: FloatArray) -> Classes:
    """Distributions on the distinct scores if these are few, else smooth over the ranks' logits."""
    both = np.concatenate([negatives, positives])
    weights = np.repeat([1 / len(negatives), 1 / len(positives)], [len(negatives), len(positives)])
    distinct, cell = np.unique(both, return_inverse=True)
    is_positive = np.arange(len(both)) >= len(negatives)
    kinds = (~is_positive, is_positive)
    if len(distinct) < POOL_CELLS:
        return Classes.of(*(np.bincount(cell[k], minlength=len(distinct)) for k in kinds))
    mass = np.bincount(cell, weights)
    rank = special.logit((np.cumsum(mass) - mass / 2) / mass.sum())[cell]
    place = ((rank - rank.min()) / (rank.max() - rank.min()) * (POOL_CELLS - 1)).astype(int)
    width = 0.08 / (rank.max() - rank.min()) * POOL_CELLS

    def smooth(kind: NDArray[np.bool_]) -> FloatArray:
        counts = np.bincount(place[kind], minlength=POOL_CELLS).astype(float)
        return np.asarray(ndimage.gaussian_filter1d(counts, width, mode="nearest"))

    return Classes.of(*(smooth(kind) for kind in kinds))
