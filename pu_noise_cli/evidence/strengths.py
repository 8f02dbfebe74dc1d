"""Evidence strengths: levels of the likelihood ratio, from a rule that is data."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..numerics import FloatArray

SCHEMA = "punoise.evidence/1"
NONE = "indeterminate"
MAX_LEVELS, MAX_NAME, MAX_POINTS = 100, 200, 1000  # of a rule, which may come from anywhere
MAX_SOURCE = 2000  # characters
OF_GROUPS = (  # columns of GROUPS, in which a level has a column of its own
    *("group", "n_labeled", "n_unlabeled", "n_negatives"),
    *("alpha", "alpha_low", "alpha_high", "shift"),
)
ANY_PRIOR = 0.1
MAX_ODDS = 10**12  # of very strong evidence


@dataclass(frozen=True)
class Level:
    """Evidence of a strength: a likelihood ratio at least so high or, against, at most so high."""

    name: str
    lr: float
    posterior: float  # at the prior of the population
    code: str  # what tables of thresholds call it
    points: int | None = None  # on a scale that adds up, negative for evidence against

    @property
    def against(self) -> bool:
        return self.lr < 1


@dataclass(frozen=True)
class Grading:
    """By which rule, and for which population, evidence is graded."""

    name: str  # of the rule
    rule: Any
    target_alpha: float | None = None  # the share of positives there; None: that of these rows

    def check(self) -> None:
        """Stop, before any work is done, at what is no rule."""
        self.levels(ANY_PRIOR)
        self.points(ANY_PRIOR)

    @property
    def source(self) -> str | None:
        """Where the rule says that it comes from."""
        found = self.rule.get("source")
        return found[:MAX_SOURCE] if isinstance(found, str) else None

    def prior(self, alpha: float) -> float:
        """The prior that the levels are for, given that of these rows."""
        return alpha if self.target_alpha is None else self.target_alpha

    def levels(self, alpha: float) -> list[Level]:
        """The levels of the rule, the strongest of each side first."""
        return levels(self.name, self.rule, self.prior(alpha))

    def points(self, alpha: float) -> list[Level]:
        """A level for each number of points, the most of each side first, if the rule has any."""
        return _points(self.name, self.rule, self.prior(alpha))


def levels(name: str, rule: Any, prior: float) -> list[Level]:
    """The levels of a rule at a prior, the strongest of each side first.

    A level has an `exponent` of the odds of very strong evidence, which follow from the prior by
    the rule's combining rules, or a likelihood ratio `lr` of its own.
    """
    with _checked(name):
        if rule["schema"] != SCHEMA:
            raise InputError(f"{name}: not a {SCHEMA} document")
        if not 0 < len(rule["levels"]) <= MAX_LEVELS:
            raise InputError(f"{name}: a rule has 1 to {MAX_LEVELS} levels")
        by_exponent = any("exponent" in level for level in rule["levels"])
        strongest = _very_strong(name, rule, prior) if by_exponent else 1
        found = [_level(name, level, strongest, prior) for level in rule["levels"]]
    _check_names(name, found)
    return sorted(found, key=lambda level: -abs(np.log(level.lr)))


def _check_names(name: str, found: Sequence[Level]) -> None:
    """Stop where levels could not be told from each other, or from something else."""
    for texts, taken in (([x.name for x in found], (NONE,)), ([x.code for x in found], OF_GROUPS)):
        for i, text in enumerate(texts):
            if text in taken:
                raise InputError(f"{name}: no level can be called {text!r}; give it another name")
            if text in texts[:i]:
                raise InputError(f"{name}: two levels are called {text!r}")


def _points(name: str, rule: Any, prior: float) -> list[Level]:
    with _checked(name):
        if "points" not in rule:
            return []
        each, most = _number(rule["points"]["exponent"]), _whole(rule["points"]["most"])
        if not 0 < most <= MAX_LEVELS:
            raise ValueError("as many points as there may be levels")
        strongest = _very_strong(name, rule, prior)
        return [
            _level(name, {"name": str(p), "exponent": p * each, "points": p}, strongest, prior)
            for n in range(most, 0, -1)
            for p in (n, -n)
        ]


@contextlib.contextmanager
def _checked(name: str) -> Iterator[None]:
    """What may go wrong in a document from anywhere, as an error of that document."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{name}: not a rule; it has 'schema' and 'levels', each with 'name' and 'lr', or "
            "with 'exponent' and then 'combining' rules"
        ) from error


def _level(name: str, level: dict[str, Any], strongest: float, prior: float) -> Level:
    lr = _number(level["lr"]) if "lr" in level else strongest ** _number(level["exponent"])
    title, code = level["name"], level.get("code", level["name"])
    for text in (title, code):
        if not isinstance(text, str) or len(text.encode()) > MAX_NAME:
            raise ValueError("a level has a short name")
    if not 0 < lr < np.inf or lr == 1:
        raise InputError(
            f"{name}: level {title!r} has a likelihood ratio of {lr:g} at a prior of {prior:g}, "
            "which tells nothing"
        )
    points = _whole(level["points"]) if "points" in level else None
    return Level(title, lr, float(_posterior(lr, prior)), code, points)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not np.isfinite(float(value)):
        raise ValueError("a finite number is wanted")
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) > MAX_POINTS:
        raise ValueError("a whole number is wanted")
    return value


def _posterior(lr: float | FloatArray, prior: float) -> Any:
    return lr * prior / (lr * prior + 1 - prior)


def _very_strong(name: str, rule: dict[str, Any], prior: float) -> float:
    """The least whole odds at which every combination reaches the posterior it stands for."""
    for published in rule.get("published", []):
        if prior == published["prior"]:
            return _number(published["odds"])
    groups = [
        (min(map(_number, group["exponents"])), _number(group["posterior"]))
        for group in rule["combining"][:MAX_LEVELS]
    ]

    def reach(odds: int) -> bool:
        return all(
            round(_posterior(float(odds) ** weakest, prior), 3) >= posterior
            for weakest, posterior in groups
        )

    if not reach(MAX_ODDS):
        raise InputError(
            f"{name}: no odds of evidence lift a prior of {prior:g} far enough; state that of the "
            "population with --target-alpha"
        )
    return float(bisect_left(range(1, MAX_ODDS), True, key=reach) + 1)


def strengths(levels: Sequence[Level], low: FloatArray, high: FloatArray) -> NDArray[np.str_]:
    """The strongest level that bounds on the likelihood ratio, shape (n,), support; else NONE."""
    result = np.full(len(low), NONE, dtype=object)
    for level in reversed(levels):
        meets = high <= level.lr if level.against else low >= level.lr
        result[meets] = level.name
    return result.astype(str)
