"""Strengths of evidence: levels of the likelihood ratio, from a rule that is data."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from ..errors import InputError, option
from ..posterior.groups import COUNTED, ESTIMATED
from ..tables.files import Fraction, parse_document, read_json

NONE = "indeterminate"
# of rules, which strangers may have written
MAX_LEVELS, MAX_NAME, MAX_POINTS, MAX_SOURCE = 100, 200, 1000, 2000
GROUP_COLUMNS = ("group", *COUNTED, *ESTIMATED)  # GROUPS has a further column for each level
ANY_PRIOR = 0.1
MAX_ODDS = 10**12  # of very strong evidence

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Points = Annotated[int, Meta(ge=-MAX_POINTS, le=MAX_POINTS)]
Ratio = Annotated[float, Meta(gt=0)]


# ---- The document


class RuleLevel(Struct, frozen=True):
    """A level of a rule: a likelihood ratio, or a power of the odds of very strong evidence."""

    name: Name
    code: Name | None = None  # its name in tables of thresholds, if that is another
    lr: Ratio | None = None
    exponent: float | None = None
    points: Points | None = None

    def __post_init__(self) -> None:
        if self.lr is None and self.exponent is None:
            raise ValueError("a level has `lr` or `exponent`")


class Combination(Struct, frozen=True):
    """Combinations of evidence, each with the sum of its exponents, and what they stand for."""

    posterior: Fraction
    exponents: Annotated[tuple[float, ...], Meta(min_length=1)]


class PublishedOdds(Struct, frozen=True):
    """The odds of very strong evidence that were published for a prior."""

    prior: Fraction
    odds: Ratio


class PointScale(Struct, frozen=True):
    """Points of evidence, on an additive scale."""

    exponent: float  # of one point
    most: Annotated[int, Meta(ge=1, le=MAX_LEVELS)]


class Rule(Struct, frozen=True, kw_only=True):
    """The levels of evidence, and how the odds of very strong evidence follow from the prior."""

    schema: Literal["punoise.evidence/1"] = "punoise.evidence/1"
    source: Any = None  # cited if it is text
    combining: Annotated[tuple[Combination, ...], Meta(max_length=MAX_LEVELS)] = ()
    published: tuple[PublishedOdds, ...] = ()
    points: PointScale | None = None
    levels: Annotated[tuple[RuleLevel, ...], Meta(min_length=1, max_length=MAX_LEVELS)]

    def __post_init__(self) -> None:
        names = [level.name for level in self.levels]
        codes = [level.code or level.name for level in self.levels]
        for texts, reserved in ((names, (NONE,)), (codes, GROUP_COLUMNS)):
            for i, text in enumerate(texts):
                if text in reserved:
                    raise ValueError(f"no level can be called {text!r}; give it another name")
                if text in texts[:i]:
                    raise ValueError(f"two levels are called {text!r}")


def read_rule(name: str) -> Rule:
    """Read a rule: one of the package by its name, or a file."""
    shipped = resources.files(__package__).joinpath(f"{name}.json")
    is_shipped = name.isidentifier() and shipped.is_file()
    value = json.loads(shipped.read_text(encoding="utf-8")) if is_shipped else read_json(name)
    return parse_document(name, value, Rule)


# ---- Levels at a prior


@dataclass(frozen=True)
class Level:
    """Evidence of a strength: a likelihood ratio of at least `lr` or, if below 1, at most."""

    name: str
    lr: float
    posterior: float  # at the prior of the population
    code: str  # its name in tables of thresholds
    points: int | None = None  # on an additive scale, negative for evidence against

    @property
    def against(self) -> bool:
        """Whether it is evidence against being positive."""
        return self.lr < 1


@dataclass(frozen=True)
class Grading:
    """The rule by which evidence is graded, and the population it is graded for."""

    name: str  # of the rule
    rule: Rule
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
        source = self.rule.source
        return source[:MAX_SOURCE] if isinstance(source, str) else None

    def prior(self, alpha: float) -> float:
        """The prior that the levels are for, from that of these rows."""
        return alpha if self.target_alpha is None else self.target_alpha

    def levels(self, alpha: float) -> list[Level]:
        """The levels of the rule, the strongest of each side first."""
        levels = self._at_prior(self.rule.levels, self.prior(alpha))
        return sorted(levels, key=lambda level: -abs(np.log(level.lr)))

    def points(self, alpha: float) -> list[Level]:
        """A level for each number of points, the most of each side first, if the rule has any."""
        if self.rule.points is None:
            return []
        most, each = self.rule.points.most, self.rule.points.exponent
        points = [p for n in range(most, 0, -1) for p in (n, -n)]
        levels = [RuleLevel(str(p), exponent=p * each, points=p) for p in points]
        return self._at_prior(levels, self.prior(alpha))

    def _at_prior(self, levels: Sequence[RuleLevel], prior: float) -> list[Level]:
        by_exponent = any(level.exponent is not None for level in levels)
        strongest = self._very_strong(prior) if by_exponent else 1.0
        return [self._level(level, strongest, prior) for level in levels]

    def _level(self, level: RuleLevel, strongest: float, prior: float) -> Level:
        lr = _power(strongest, level.exponent or 0.0) if level.lr is None else level.lr
        if not 0 < lr < np.inf or lr == 1:
            raise InputError(
                f"{self.name}: level {level.name!r} has a likelihood ratio of {lr:g} at a prior of "
                f"{prior:g}, which is not evidence"
            )
        posterior = float(_posterior(lr, prior))
        return Level(level.name, lr, posterior, level.code or level.name, level.points)

    def _very_strong(self, prior: float) -> float:
        """The least whole odds at which every combination reaches the posterior it stands for."""
        for published in self.rule.published:
            if prior == published.prior:
                return published.odds
        if not self.rule.combining:
            raise InputError(f"{self.name}: exponents need `combining` rules, which give the odds")

        def suffice(odds: int) -> bool:
            return all(
                round(_posterior(_power(odds, min(one.exponents)), prior), 3) >= one.posterior
                for one in self.rule.combining
            )

        if not suffice(MAX_ODDS):
            raise InputError(
                f"{self.name}: no odds of evidence raise a prior of {prior:g} far enough; state "
                f"that of the population with {option('target_alpha')}"
            )
        return float(bisect_left(range(1, MAX_ODDS), True, key=suffice) + 1)


def _power(odds: float, exponent: float) -> float:
    try:
        return float(odds) ** exponent
    except OverflowError:
        return np.inf


def _posterior(lr: float, prior: float) -> float:
    return lr * prior / (lr * prior + 1 - prior)
