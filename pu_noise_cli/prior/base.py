"""What an estimator takes and gives, and the registry that each enters where it is defined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..notices import Notice
from ..numerics import FloatArray

Interval = tuple[float, float]
SMALLEST = 1e-9  # shares and differences below it are none
# what a method reads: scores, also those of one best match per spectrum only, or feature tables
Needs = Literal["scores", "matches", "features"]


@dataclass(frozen=True)
class Samples:
    """The feature tables as numbers: shapes (n_labeled, d) and (n_unlabeled, d)."""

    labeled: NDArray[np.float64]
    unlabeled: NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """What the user may fix about an estimation, the same for every method."""

    beta: float | None = None  # the known share of the labeled rows that are what the labels say
    seed: int = 0
    elkan_noto_estimator: str = "e1"
    elbow: str = "robust"
    # at least this share of the unlabeled rows that score like the top fifth of the labeled ones
    # are positive; 0 assumes nothing. None: the default, or nothing where there are known negatives
    purity: float | None = None
    alpha_between: Interval | None = None
    beta_between: Interval | None = None
    # what the labels say; to the methods α is the share of the labeled class all the same
    labeled_negatives: bool = False


@dataclass(frozen=True)
class Curve:
    """A profile log-likelihood: its value at each mixing proportion, both of shape (n,)."""

    proportion: FloatArray
    log_likelihood: FloatArray


@dataclass(frozen=True)
class Estimate:
    """What one method says of a pair of samples (the paper's α*, β*, α⁺ and β⁺)."""

    alpha: float
    beta: float
    alpha_plus: float | None = None
    beta_plus: float | None = None
    alpha_ci: Interval | None = None
    beta_ci: Interval | None = None
    converged: bool | None = None  # null for methods that do not iterate
    notices: tuple[Notice, ...] = ()
    curves: dict[str, Curve] = field(default_factory=dict)
    draws: tuple[tuple[float, float], ...] | None = None  # equally likely pairs of α and β
    alpha_ci_sampling: Interval | None = None  # what would remain if the overlap were known
    assumed: dict[str, Any] | None = None  # the prior, in words and numbers
    typical: bool = True  # labeled positives are taken for a random sample of all, as limits do

    def turned(self) -> Estimate:
        """The same with α as the share of the other class."""
        return replace(
            self,
            alpha=1 - self.alpha,
            alpha_plus=None,  # of the labeled class, and so no bound of this α
            beta_plus=None,
            alpha_ci=other_way(self.alpha_ci),
            alpha_ci_sampling=other_way(self.alpha_ci_sampling),
            draws=self.draws and tuple((1 - alpha, beta) for alpha, beta in reversed(self.draws)),
            assumed=self.assumed and _turned_assumptions(self.assumed),
        )


def other_way(interval: Interval | None) -> Interval | None:
    """The interval of one minus a share."""
    return None if interval is None else (1 - interval[1], 1 - interval[0])


def _turned_assumptions(assumed: dict[str, Any]) -> dict[str, Any]:
    between = assumed["alpha_between"]
    return {
        **assumed,
        "alpha_between": None if between is None else list(other_way(tuple(between)) or ()),
        "sensitivity": [[p, 1 - high, 1 - low] for p, low, high in assumed["sensitivity"]],
    }


@dataclass(frozen=True)
class Estimator:
    """A named method: on the sketch of the scores, or on the feature tables themselves."""

    name: str
    summary: str
    needs: Needs
    options: tuple[str, ...]  # the settings that it heeds beyond those that every method does
    negatives: bool  # whether it uses known negatives
    estimate: Callable[[Any, Settings], Estimate]


ESTIMATORS: dict[str, Estimator] = {}


def register(
    name: str,
    needs: Needs = "scores",
    options: tuple[str, ...] = (),
    negatives: bool = False,
) -> Callable[[Callable[[Any, Settings], Estimate]], Callable[[Any, Settings], Estimate]]:
    """Enter a method under its name; the first line of its docstring is its summary."""

    def enter(
        function: Callable[[Any, Settings], Estimate],
    ) -> Callable[[Any, Settings], Estimate]:
        summary = (function.__doc__ or "").split("\n")[0]
        ESTIMATORS[name] = Estimator(name, summary, needs, options, negatives, function)
        return function

    return enter


def corrected(alpha_plus: float, beta_plus: float) -> tuple[float, float]:
    """α* and β* from the two maximal proportions (equation 5 of the paper)."""
    rest = 1 - alpha_plus * beta_plus
    if rest <= 0:  # indistinguishable samples: each is all of the other
        return 0.5, 0.5
    return alpha_plus * (1 - beta_plus) / rest, (1 - beta_plus) / rest


@dataclass(frozen=True)
class Shares:
    """The fractions of positives among unlabeled rows (α) and among labeled rows (β)."""

    alpha: float
    beta: float
    from_these_rows: bool = True  # estimated from the rows at hand: posteriors must average to α
    draws: tuple[tuple[float, float], ...] = ()  # equally likely pairs; none if α, β are certain
