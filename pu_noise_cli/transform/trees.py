"""Gradient boosting and random forest, stored as plain arrays and walked by the same few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .base import Arrays, Fit, Matrix, Progress, Training, check_weights, register
from .held_out import Units, balanced, out_of_fold
from .threads import by_chunks, in_threads

FOLDS = 5
ROUNDS = 100
BINS = 32  # as good as 255 on normal scores, at a fifth of the time where columns are many
FOREST_BLOCKS = 20
TREES_PER_BLOCK = 10
MAX_DEPTH = 1000  # far more than trees come to have: a chain of nodes would take for ever


@dataclass(frozen=True)
class Trees:
    """Binary trees, one after another; a leaf is its own child, so walking on stays there.

    The values of a row's leaves, one per tree, are summed and divided by `divisor`. That is the
    score or, where `is_logit`, the logit of the score.
    """

    feature: NDArray[np.int32]  # (m,)
    threshold: NDArray[np.float64]  # (m,): values up to it go left
    children: NDArray[np.int32]  # (m, 2): left and right
    value: NDArray[np.float64]  # (m,)
    roots: NDArray[np.int32]  # (t,)
    divisor: int
    is_logit: bool

    def walk(self, features: Matrix) -> NDArray[np.float64]:
        """The scores, shape (n,), of one chunk of rows."""
        total = np.zeros(len(features))
        flat, start = features.ravel(), np.arange(len(features)) * features.shape[1]
        children = self.children.ravel()
        for root in self.roots:
            node, deeper = start - 1, np.full(len(features), root)
            while not np.array_equal(node, deeper):
                node = deeper
                value = flat.take(start + self.feature.take(node))
                deeper = children.take(2 * node + (value > self.threshold.take(node)))
            total += self.value.take(node)
        total /= self.divisor
        if not self.is_logit:
            return total
        from scipy.special import expit

        return np.asarray(expit(total))

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        return by_chunks(self.walk, features)

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {
            "feature": self.feature,
            "threshold": self.threshold,
            "children": self.children,
            "value": self.value,
            "roots": self.roots,
            "divisor": np.array(self.divisor),
            "is_logit": np.array(self.is_logit),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The trees that arrays() came from."""
        return cls(
            np.asarray(arrays["feature"], dtype=np.int32),
            np.asarray(arrays["threshold"], dtype=np.float64),
            np.asarray(arrays["children"], dtype=np.int32),
            np.asarray(arrays["value"], dtype=np.float64),
            np.asarray(arrays["roots"], dtype=np.int32),
            int(arrays["divisor"]),
            bool(arrays["is_logit"]),
        )

    def check(self, d: int) -> None:
        """Stop with a ValueError unless these are trees, on d features, with scores in [0, 1]."""
        m, itself = len(self.value), np.arange(len(self.value))
        check_weights(self.value, (m,))
        if not self.feature.shape == self.threshold.shape == (m,) or self.children.shape != (m, 2):
            raise ValueError("each node has a feature, a threshold and two children")
        if not ((self.feature >= 0) & (self.feature < d)).all() or np.isnan(self.threshold).any():
            raise ValueError(f"a node looks at one of {d} features")
        leaf = (self.children == itself[:, None]).all(1)
        inner = self.children[~leaf]
        if (inner <= itself[~leaf, None]).any() or (self.children >= m).any():
            raise ValueError("children come after their parents")
        parents = np.bincount(inner.ravel(), minlength=m)
        if self.roots.ndim != 1 or not 1 <= self.divisor <= len(self.roots):
            raise ValueError("there are trees, and a number to divide by")
        if (
            not np.array_equal(np.sort(self.roots), np.flatnonzero(parents == 0))
            or (parents > 1).any()
        ):
            raise ValueError("a node has one parent, a root none")
        if not self.is_logit and (
            self.divisor != len(self.roots) or not ((self.value >= 0) & (self.value <= 1)).all()
        ):
            raise ValueError("scores are means of shares")
        level, depth = self.roots, 0
        while len(level := level[~leaf[level]]):
            level, depth = self.children[level].ravel(), depth + 1
            if depth > MAX_DEPTH:
                raise ValueError(f"a tree is deeper than {MAX_DEPTH}")


def _one(feature: Any, threshold: Any, left: Any, right: Any, value: Any, leaf: Any) -> Trees:
    """One tree from scikit-learn's columns, in which a leaf's feature and children mean nothing."""
    itself = np.arange(len(leaf))
    children = np.stack([np.where(leaf, itself, left), np.where(leaf, itself, right)], axis=1)
    return Trees(
        np.where(leaf, 0, feature).astype(np.int32),
        np.asarray(threshold, dtype=np.float64),
        children.astype(np.int32),
        np.asarray(value, dtype=np.float64),
        np.zeros(1, dtype=np.int32),
        divisor=1,
        is_logit=False,
    )


def _all(parts: Sequence[Trees], divisor: int, is_logit: bool) -> Trees:
    """The trees of all parts as one."""
    first = np.cumsum([0, *(len(part.value) for part in parts[:-1])], dtype=np.int32)
    return Trees(
        np.concatenate([part.feature for part in parts]),
        np.concatenate([part.threshold for part in parts]),
        np.concatenate([part.children + k for part, k in zip(parts, first, strict=True)]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.roots + k for part, k in zip(parts, first, strict=True)]),
        divisor,
        is_logit,
    )


@register("boosting", Trees)
def boosting(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """Gradient boosting out of fold; the model is the mean logit of the folds' models."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    units = Units(training)
    rng = np.random.default_rng(seed)
    folds = min(FOLDS, units.fewest)
    fold = units.folds(folds, rng)[units.of_row]

    def fit(held_out: int) -> Trees:
        seen = fold != held_out
        labeled = training.labeled[seen]
        model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=ROUNDS,
            max_leaf_nodes=15,
            max_bins=BINS,
            min_samples_leaf=min(20, int(labeled.sum()) // 4 + 1),
            early_stopping=False,
            random_state=seeds[held_out],
        )
        model.fit(training.features[seen], labeled, sample_weight=balanced(labeled))
        # with equal weights the logit before the first tree is 0, and so is left out
        names = ("feature_idx", "num_threshold", "left", "right", "value", "is_leaf")
        trees = [_one(*(tree.nodes[name] for name in names)) for (tree,) in model._predictors]
        return _all(trees, divisor=1, is_logit=True)

    seeds = rng.integers(2**31, size=folds).tolist()
    parts, scores = out_of_fold(fit, training, fold, threads, progress)
    return Fit(_all(parts, divisor=folds, is_logit=True), scores)


@register("forest", Trees)
def forest(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """Random forest out of bag."""
    from sklearn.tree import DecisionTreeClassifier

    units = Units(training)
    everything = np.ones(len(units.size), dtype=np.bool_)
    weight = balanced(training.labeled)

    def fit(rng: np.random.Generator) -> tuple[Trees, NDArray[np.float64], NDArray[np.intp]]:
        bags = units.bootstrap(TREES_PER_BLOCK, everything, rng)
        trees, total, count = [], np.zeros(len(weight)), np.zeros(len(weight), dtype=np.intp)
        for in_bag in bags.T:
            model = DecisionTreeClassifier(
                max_features="sqrt",
                min_samples_leaf=5,
                max_depth=MAX_DEPTH,
                random_state=int(rng.integers(2**31)),
            )
            model.fit(training.features, training.labeled, sample_weight=in_bag * weight)
            tree = model.tree_
            columns = tree.feature, tree.threshold, tree.children_left, tree.children_right
            trees.append(_one(*columns, tree.value[:, 0, 1], tree.children_left < 0))
            out = np.flatnonzero(in_bag == 0)
            total[out] += trees[-1].walk(training.features[out])
            count[out] += 1
        return _all(trees, divisor=TREES_PER_BLOCK, is_logit=False), total, count

    rngs = np.random.default_rng(seed).spawn(FOREST_BLOCKS)
    parts, totals, counts = zip(*in_threads(fit, rngs, threads, progress), strict=True)
    model = _all(parts, divisor=FOREST_BLOCKS * TREES_PER_BLOCK, is_logit=False)
    return Fit(model, sum(totals) / sum(counts))
