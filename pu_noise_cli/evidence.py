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
        by_exponent = any("exponent" in level for level in rule["levels"])
        strongest = _very_strong(rule, prior) if by_exponent else 1
        found = []
        for level in rule["levels"]:
            lr = float(level["lr"]) if "lr" in level else strongest ** float(level["exponent"])
            if not 0 < lr < np.inf or lr == 1:
                raise InputError(
                    f"{name}: level {level['name']!r} has a likelihood ratio of {lr:g} "
                    f"at a prior of {prior:g}, which tells nothing"
                )
            found.append(Level(str(level["name"]), lr, _posterior(lr, prior)))
        if not found:
            raise InputError(f"{name}: the rule has no levels")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name}: not a rule; it has 'schema' and 'levels', each with 'name' and 'lr', or "
            "with 'exponent' and then 'combining' rules"
        ) from error
    return sorted(found, key=lambda level: -abs(np.log(level.lr)))


def _posterior(lr: float | FloatArray, prior: float) -> Any:
    return lr * prior / (lr * prior + 1 - prior)


def _very_strong(rule: dict[str, Any], prior: float) -> float:
    """The least whole odds at which every combination reaches the posterior it stands for."""
    for published in rule.get("published", []):
        if prior == published["prior"]:
            return float(published["odds"])
    odds = np.arange(1, 1_000_000, dtype=np.float64)
    reached = np.ones(len(odds), bool)
    for group in rule["combining"]:
        weakest = _posterior(odds ** min(group["exponents"]), prior)
        reached &= np.round(weakest, 3) >= group["posterior"]
    if not reached.any():
        raise InputError(f"no odds of evidence lift a prior of {prior:g} far enough")
    return float(odds[reached.argmax()])


def strengths(levels: Sequence[Level], low: FloatArray, high: FloatArray) -> NDArray[np.str_]:
    """The strongest level that bounds on the likelihood ratio, shape (n,), support; else NONE."""
    result = np.full(len(low), NONE, dtype=object)
    for level in reversed(levels):
        meets = high <= level.lr if level.against else low >= level.lr
        result[meets] = level.name
    return result.astype(str)
