"""Strengths of evidence: levels of the likelihood ratio, from a rule that is data."""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from ..errors import InputError, PunoiseError, option
from ..posterior.groups import COUNTED, ESTIMATED
from ..tables.files import read_json

SCHEMA = "punoise.evidence/1"
NONE = "indeterminate"
# of rules, which strangers may have written
MAX_LEVELS, MAX_NAME, MAX_POINTS, MAX_SOURCE = 100, 200, 1000, 2000
GROUP_COLUMNS = ("group", *COUNTED, *ESTIMATED)  # GROUPS has a further column for each level
ANY_PRIOR = 0.1
MAX_ODDS = 10**12  # of very strong evidence


@dataclass(frozen=True)
class Level:
    """Evidence of a strength: a likelihood ratio of at least `lr` or, if below 1, at most."""

    name: str
    lr: float
    posterior: float  # at the prior of the population
    code: str  # its name in tables of thresholds
    points: int | None = None  # on an additive scale, negative for evidence against
    against: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "against", self.lr < 1)


@dataclass(frozen=True)
class Grading:
    """The rule by which evidence is graded, and the population it is graded for."""

    name: str  # of the rule
    rule: Any
    target_alpha: float | None = None  # the fraction of positives there; None: that of these rows

    @classmethod
    def read(cls, name: str, target_alpha: float | None = None) -> Grading:
        """Read a rule, one of the package by its name or a file, and check it."""
        grading = cls(name, read_rule(name), target_alpha)
        grading.levels(ANY_PRIOR)
        grading.points(ANY_PRIOR)
        return grading

    def source(self) -> str | None:
        """The source that the rule cites."""
        source = self.rule.get("source")
        return source[:MAX_SOURCE] if isinstance(source, str) else None

    def prior(self, alpha: float) -> float:
        """The prior that the levels are for, from that of these rows."""
        return alpha if self.target_alpha is None else self.target_alpha

    def levels(self, alpha: float) -> list[Level]:
        """The levels of the rule, the strongest of each side first."""
        return levels(self.name, self.rule, self.prior(alpha))

    def points(self, alpha: float) -> list[Level]:
        """A level for each number of points, the most of each side first, if the rule has any."""
        return _points(self.name, self.rule, self.prior(alpha))


def read_rule(name: str) -> Any:
    """Read a rule: one of the package by its name, or a file."""
    shipped = resources.files(__package__).joinpath(f"{name}.json")
    if name.isidentifier() and shipped.is_file():
        return json.loads(shipped.read_text(encoding="utf-8"))
    return read_json(name)


# ---- Levels of a rule


def levels(name: str, rule: Any, prior: float) -> list[Level]:
    """The levels of a rule at a prior, the strongest of each side first.

    A level has a likelihood ratio `lr`, or an `exponent` of the odds of very strong evidence, which
    follow from the prior by the rule's combining rules.
    """
    with _checked(name):
        if rule["schema"] != SCHEMA:
            raise InputError(f"{name}: not a {SCHEMA} document")
        if not 0 < len(rule["levels"]) <= MAX_LEVELS:
            raise InputError(f"{name}: a rule has 1 to {MAX_LEVELS} levels")
        by_exponent = any("exponent" in level for level in rule["levels"])
        strongest = _very_strong(name, rule, prior) if by_exponent else 1
        result = [_level(name, level, strongest, prior) for level in rule["levels"]]
    _check_names(name, result)
    return sorted(result, key=lambda level: -abs(np.log(level.lr)))


def _check_names(name: str, levels: Sequence[Level]) -> None:
    """Stop at names that are ambiguous."""
    names, codes = [level.name for level in levels], [level.code for level in levels]
    for texts, reserved in ((names, (NONE,)), (codes, GROUP_COLUMNS)):
        for i, text in enumerate(texts):
            if text in reserved:
                raise InputError(f"{name}: no level can be called {text!r}; give it another name")
            if text in texts[:i]:
                raise InputError(f"{name}: two levels are called {text!r}")


def _points(name: str, rule: Any, prior: float) -> list[Level]:
    with _checked(name):
        if "points" not in rule:
            return []
        each, most = _number(rule["points"]["exponent"]), _whole(rule["points"]["most"])
        if not 0 < most <= MAX_LEVELS:
            raise ValueError("too many points")
        strongest = _very_strong(name, rule, prior)
        return [
            _level(name, {"name": str(p), "exponent": p * each, "points": p}, strongest, prior)
            for n in range(most, 0, -1)
            for p in (n, -n)
        ]


@contextlib.contextmanager
def _checked(name: str) -> Iterator[None]:
    """Report errors in a document from anywhere as errors of that document."""
    try:
        yield
    except PunoiseError:
        raise
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
            "which is not evidence"
        )
    points = _whole(level["points"]) if "points" in level else None
    return Level(title, lr, float(_posterior(lr, prior)), code, points)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not np.isfinite(float(value)):
        raise ValueError("not a finite number")
    return float(value)


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) > MAX_POINTS:
        raise ValueError("not a whole number")
    return value


def _posterior(lr: float, prior: float) -> float:
    return lr * prior / (lr * prior + 1 - prior)


def _very_strong(name: str, rule: dict[str, Any], prior: float) -> float:
    """The least whole odds at which every combination reaches the posterior it stands for."""
    for published in rule.get("published", []):
        if prior == published["prior"]:
            return _number(published["odds"])
    combinations = [
        (min(map(_number, group["exponents"])), _number(group["posterior"]))
        for group in rule["combining"][:MAX_LEVELS]
    ]

    def suffice(odds: int) -> bool:
        return all(
            round(_posterior(float(odds) ** weakest, prior), 3) >= posterior
            for weakest, posterior in combinations
        )

    if not suffice(MAX_ODDS):
        raise InputError(
            f"{name}: no odds of evidence raise a prior of {prior:g} far enough; state that of the "
            f"population with {option('target_alpha')}"
        )
    return float(bisect_left(range(1, MAX_ODDS), True, key=suffice) + 1)
