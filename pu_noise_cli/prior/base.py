"""What estimation methods take and return, and the registry of methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..notices import Notice
from ..numerics import FloatArray
from ..tables.files import Fraction
from ..tables.rows import LabeledClass

Interval = tuple[float, float]
Ends = tuple[Fraction, Fraction]  # an interval in a document
SMALLEST = 1e-9  # fractions and differences below it count as zero
Needs = Literal["scores", "features"]


@dataclass(frozen=True)
class Samples:
    """The feature tables as numbers: shapes (n_labeled, d) and (n_unlabeled, d)."""

    labeled: FloatArray
    unlabeled: FloatArray
    labeled_class: LabeledClass = "positive"


@dataclass(frozen=True)
class Settings:
    """What the user may fix about an estimation, the same for every method."""

    beta: float | None = None  # the fraction of the labels that are correct, if known
    seed: int = 0
    # at least this fraction of the unlabeled rows that score like the top fifth of the labeled
    # rows are of the labeled class, if known
    purity: float | None = None
    alpha_between: Interval | None = None
    beta_between: Interval | None = None


@dataclass(frozen=True)
class Curve:
    """A profile log-likelihood: its value at each mixing proportion, both of shape (n,)."""

    proportion: FloatArray
    log_likelihood: FloatArray


def check_intervals(part: Struct, *names: str) -> None:
    """Raise a ValueError if one of these intervals of a document ends before it starts."""
    for name in names:
        interval = getattr(part, name)
        if interval is not None and interval[0] > interval[1]:
            raise ValueError(f"{name} ends before it starts")


class AlphaPrior(Struct, frozen=True, kw_only=True):
    """The density of alpha before the scores are seen: as (1 - alpha)^power, or log-uniform."""

    power: Annotated[float, Meta(ge=0, le=1e300)]
    small: Fraction  # the probability that alpha is log-uniform ...
    between: Ends  # ... over this range


class BetaPiece(Struct, frozen=True, kw_only=True):
    """A piece of the density of beta before the scores are seen: uniform between two ends."""

    share: Fraction
    between: Ends


class Assumptions(Struct, frozen=True, kw_only=True):
    """What a method assumed of alpha and beta before it saw the scores."""

    words: str
    alpha: AlphaPrior
    beta: Fraction | tuple[BetaPiece, ...]  # known, or a density
    purity: Fraction  # the least fraction of the labeled class among the top unlabeled rows
    alpha_between: Ends | None = None
    beta_between: Ends | None = None
    sensitivity: tuple[tuple[Fraction, Fraction, Fraction], ...]  # a purity, the interval of alpha

    def __post_init__(self) -> None:
        check_intervals(self, "alpha_between", "beta_between")
        if any(low > high for _, low, high in self.sensitivity):
            raise ValueError("an interval of sensitivity ends before it starts")


@dataclass(frozen=True)
class Estimate:
    """What one method estimates from a pair of samples (the paper's α*, β*, α⁺ and β⁺)."""

    alpha: float
    beta: float
    alpha_plus: float | None = None
    beta_plus: float | None = None
    alpha_ci: Interval | None = None
    beta_ci: Interval | None = None
    converged: bool | None = None  # None for methods that do not iterate
    notices: tuple[Notice, ...] = ()
    curves: dict[str, Curve] = field(default_factory=dict)
    draws: tuple[tuple[float, float], ...] | None = None  # equally likely pairs of α and β
    alpha_ci_sampling: Interval | None = None  # the interval if the class overlap were known
    assumed: Assumptions | None = None
    representative: bool = True  # takes labeled rows as a random sample of their class


@dataclass(frozen=True)
class Shares:
    """The fractions of positives among unlabeled rows (α) and among labeled rows (β)."""

    alpha: float
    beta: float
    from_these_rows: bool = True  # estimated from the rows at hand: posteriors must average to α
    draws: tuple[tuple[float, float], ...] = ()  # equally likely pairs; none if α, β are certain


Method = Callable[[Any, Settings], Estimate]  # of a sketch, or of the feature tables


@dataclass(frozen=True)
class Estimator:
    """A named method: on the sketch of the scores, or on the feature tables themselves."""

    name: str
    summary: str
    needs: Needs
    options: tuple[str, ...]  # the settings it uses beyond those that every method uses
    negatives: bool  # whether it uses known negatives
    estimate: Method


ESTIMATORS: dict[str, Estimator] = {}


def register(
    name: str, needs: Needs = "scores", options: tuple[str, ...] = (), negatives: bool = False
) -> Callable[[Method], Method]:
    """Register a method; the first line of its docstring is its summary.

    A name with a colon, as `elkan-noto:e3`, is a variant for comparison, which the method `all`
    leaves out.
    """

    def enter(method: Method) -> Method:
        summary = (method.__doc__ or "").split("\n")[0]
        ESTIMATORS[name] = Estimator(name, summary, needs, options, negatives, method)
        return method

    return enter
