"""Networks in two rounds, where all labels are right: decoys against matches, as Percolator does.

The unlabeled rows are a mixture, and those of the labeled class among them teach nothing. So the
first round tells labeled from unlabeled rows, and the second tells labeled rows from the unlabeled
ones that the first has set apart from them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .base import Fit, Progress, Training, register
from .networks import BaggedNetworks, train_networks

MIXED = 0.1  # the share of the labeled class that may be left among the unlabeled rows set apart
FEWEST = 200  # rows that must be set apart, or the first round is all that can be learned


@register("semi-supervised", BaggedNetworks)
def semi_supervised(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """Networks in two rounds: the second learns from unlabeled rows that the first set apart.

    Rows that the second round does not learn from are scored as the others are, by networks that
    have seen no row of their group, or they would differ from labeled rows by being scored better.
    """

    def fit(learned: NDArray[np.bool_], done: float) -> Fit:
        def half(share: float) -> None:
            progress((done + share) / 2)

        return train_networks(training, learned, seed=seed, threads=threads, progress=half)

    first = fit(np.ones(len(training.labeled), dtype=bool), 0)
    apart = set_apart(first.scores, training.labeled)
    if apart.sum() < FEWEST:
        progress(1.0)
        return first
    return fit(training.labeled | apart, 1)


def set_apart(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The unlabeled rows below as high a score as leaves few labeled rows below it, shape (n,)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(labeled[order])
    share = (below + 1) / np.maximum(np.arange(1, len(order) + 1) - below, 1)
    within = np.flatnonzero(share <= MIXED)
    limit = scores[order[within[-1]]] if len(within) else -np.inf
    return np.asarray(~labeled & (scores <= limit))
