"""Evidence strengths: levels of the likelihood ratio, from a rule that is data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .sketch import FloatArray

SCHEMA = "punoise.evidence/1"
NONE = "indeterminate"
MAX_LEVELS, MAX_NAME = 100, 200  # of a rule, which may come from anywhere


@dataclass(frozen=True)
class Level:
    """Evidence of a strength: a likelihood ratio at least so high or, against, at most so high."""

    name: str
    lr: float
    posterior: float  # at the prior of the population

    @property
    def against(self) -> bool:
        return self.lr < 1


def levels(name: str, rule: Any, prior: float) -> list[Level]:
    """The levels of a rule at a prior, the strongest of each side first.

    A level has an `exponent` of the odds of very strong evidence, which follow from the prior by
    the rule's combining rules, or a likelihood ratio `lr` of its own.
    """
    try:
        if rule["schema"] != SCHEMA:
            raise InputError(f"{name}: not a {SCHEMA} document")
        if not 0 < len(rule["levels"]) <= MAX_LEVELS:
            raise InputError(f"{name}: a rule has 1 to {MAX_LEVELS} levels")
        by_exponent = any("exponent" in level for level in rule["levels"])
        strongest = _very_strong(name, rule, prior) if by_exponent else 1
        found = [_level(name, level, strongest, prior) for level in rule["levels"]]
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{name}: not a rule; it has 'schema' and 'levels', each with 'name' and 'lr', or "
            "with 'exponent' and then 'combining' rules"
        ) from error
    return sorted(found, key=lambda level: -abs(np.log(level.lr)))


def _level(name: str, level: dict[str, Any], strongest: float, prior: float) -> Level:
    lr = _number(level["lr"]) if "lr" in level else strongest ** _number(level["exponent"])
    title = level["name"]
    if not isinstance(title, str) or len(title.encode()) > MAX_NAME:
        raise ValueError("a level has a short name")
    if not 0 < lr < np.inf or lr == 1:
        raise InputError(
            f"{name}: level {title!r} has a likelihood ratio of {lr:g} at a prior of {prior:g}, "
            "which tells nothing"
        )
    return Level(title, lr, float(_posterior(lr, prior)))


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not np.isfinite(float(value)):
        raise ValueError("a finite number is wanted")
    return float(value)


def _posterior(lr: float | FloatArray, prior: float) -> Any:
    return lr * prior / (lr * prior + 1 - prior)


def _very_strong(name: str, rule: dict[str, Any], prior: float) -> float:
    """The least whole odds at which every combination reaches the posterior it stands for."""
    for published in rule.get("published", []):
        if prior == published["prior"]:
            return _number(published["odds"])
    odds = np.arange(1, 1_000_000, dtype=np.float64)
    reached = np.ones(len(odds), bool)
    for group in rule["combining"][:MAX_LEVELS]:
        with np.errstate(all="ignore"):  # what overflows reaches nothing
            weakest = _posterior(odds ** min(map(_number, group["exponents"])), prior)
            reached &= np.round(weakest, 3) >= _number(group["posterior"])
    if not reached.any():
        raise InputError(f"{name}: no odds of evidence lift a prior of {prior:g} far enough")
    return float(odds[reached.argmax()])


def strengths(levels: Sequence[Level], low: FloatArray, high: FloatArray) -> NDArray[np.str_]:
    """The strongest level that bounds on the likelihood ratio, shape (n,), support; else NONE."""
    result = np.full(len(low), NONE, dtype=object)
    for level in reversed(levels):
        meets = high <= level.lr if level.against else low >= level.lr
        result[meets] = level.name
    return result.astype(str)
