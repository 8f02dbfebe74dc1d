"""Warnings about scores and estimates, one function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import option
from ..notices import Notice
from ..numerics import IntArray
from ..score.sketch import Sketch
from ..tables.columns import isolated_value, tied_at_top
from ..tables.rows import LABELED, NEGATIVE, UNLABELED
from .base import Estimate
from .document import percent, show_interval

TOPS = (0.1, 0.05)  # fractions of the labeled rows that count as the top
WIDE = 1.5  # times alpha: an interval so wide deserves a warning
MIN_SEEN = 5  # rows of the training, from which they are warned of
RARER = 3.5  # standard errors by which labeled rows are rarer at the top
Check = Callable[["Case"], str | None]  # the message, if the warning is due


@dataclass(frozen=True)
class Case:
    """Scores with the labeled class on top, the answer, and what else is known."""

    sketch: Sketch
    estimate: Estimate  # α is the fraction of the labeled class
    estimates: Mapping[str, Estimate] = field(default_factory=dict)  # of all methods that ran
    learned: bool = False  # a classifier gave the scores
    positives: Estimate | None = None  # the answer with α as the fraction of positives
    scores: Sketch | None = None  # the scores as they are, high for positive

    @property
    def shown(self) -> Estimate:
        """The answer as messages show it."""
        return self.positives or self.estimate

    @property
    def other_set(self) -> int:
        """The set to compare labeled rows with: known negatives if no row is unlabeled."""
        return UNLABELED if self.sketch.n_unlabeled else NEGATIVE

    @cached_property
    def auc(self) -> float:
        """P(labeled score > score of the other set) + P(equal) / 2."""
        return self.sketch.auc if self.sketch.n_unlabeled else self.sketch.auc_against(NEGATIVE)

    @cached_property
    def auc_error(self) -> float:
        """The standard error of the AUC if the two samples do not differ."""
        n_labeled, n_other = self.sketch.n_labeled, int(self.sketch.counts[:, self.other_set].sum())
        return float(np.sqrt((n_labeled + n_other + 1) / (12 * n_labeled * n_other)))

    @property
    def ranks_labeled_higher(self) -> bool:
        """Whether labeled rows score higher by more than chance."""
        return self.auc >= 0.5 + 3 * self.auc_error


_CHECKS: list[tuple[str, Check, bool]] = []


def diagnose(case: Case, identifiable: bool = True) -> tuple[Notice, ...]:
    """The warnings that are due; only those about the scores if there is no estimate."""
    checks = [(code, check) for code, check, of_scores in _CHECKS if identifiable or of_scores]
    messages = ((code, check(case)) for code, check in checks)
    due = (Notice(code, message) for code, message in messages if message is not None)
    return (*uncounted(case.sketch), *due)


def diagnose_direction(case: Case) -> tuple[Notice, ...]:
    """The warning that the score is reversed, if it is due."""
    message = _reversed_scores(case)
    return () if message is None else (Notice("reversed-scores", message),)


def missing_scores(rows: int) -> tuple[Notice, ...]:
    """The warning that rows have no score, if there are any."""
    if rows == 0:
        return ()
    message = f"{rows} rows have no score and are left out of the estimates"
    return (Notice("missing-scores", message),)


def training_rows(rows: int) -> tuple[Notice, ...]:
    """The warning that a model scores rows that it was trained on; few are so by chance."""
    if rows < MIN_SEEN:
        return ()
    message = f"at least {rows} rows are rows that the model was trained on"
    return (Notice("training-rows-scored", message),)


def rows_in_both(rows: int) -> tuple[Notice, ...]:
    """The warning that unlabeled rows are labeled, too, if there are any."""
    if rows == 0:
        return ()
    message = (
        f"{rows} rows of the unlabeled table are also labeled; they do not count as unlabeled, so "
        "alpha is the fraction of positives among the other rows"
    )
    return (Notice("rows-in-both-tables", message),)


def uncounted(sketch: Sketch) -> tuple[Notice, ...]:
    """The warnings that rows do not count."""
    return (*missing_scores(sketch.missing), *rows_in_both(sketch.overlap))


def _check(code: str, of_scores: bool = True) -> Callable[[Check], Check]:
    def enter(check: Check) -> Check:
        _CHECKS.append((code, check, of_scores))
        return check

    return enter


@_check("few-rows")
def _few_rows(case: Case) -> str | None:
    n_labeled, n_unlabeled = case.sketch.n_labeled, case.sketch.n_unlabeled
    if min(n_labeled, n_unlabeled) >= 100:
        return None
    return f"only {n_labeled} labeled and {n_unlabeled} unlabeled rows: expect wide intervals"


@_check("indistinguishable")
def _indistinguishable(case: Case) -> str | None:
    if case.ranks_labeled_higher:
        return None
    higher = "lower" if case.sketch.labeled_class == "negative" else "higher"
    return (
        f"labeled rows score no {higher} than unlabeled rows (AUC {case.sketch.auc:.3f}), so alpha "
        "cannot be estimated"
    )


@_check("reversed-scores")
def _reversed_scores(case: Case) -> str | None:
    if case.learned or case.auc >= 0.5 - 3 * case.auc_error:
        return None
    if case.sketch.labeled_class == "negative":
        return (
            f"labeled negatives score higher than unlabeled rows (AUC {case.auc:.3f}); are they "
            f"positives, or do low scores mean positive ({option('lower_is_positive')})?"
        )
    others = "unlabeled rows" if case.other_set == UNLABELED else "known negatives"
    return (
        f"labeled rows score lower than {others} (AUC {case.auc:.3f}); if low scores mean "
        f"positive, add {option('lower_is_positive')} (or remove it if it is there); if the "
        f"labeled rows are negatives, add {option('labeled_are', 'negatives')}"
    )


@_check("separable")
def _separable(case: Case) -> str | None:
    if case.sketch.auc <= 1 - 1e-3:
        return None
    return (
        "the scores separate labeled from unlabeled rows almost perfectly "
        f"(AUC {case.sketch.auc:.4f}): either hardly any unlabeled row is positive or a column "
        "gives the label away"
    )


@_check("tied-scores")
def _tied_scores(case: Case) -> str | None:
    total = case.sketch.labeled + case.sketch.unlabeled
    fraction = total / total.sum()
    tied = float(fraction[fraction >= 0.01].sum())
    if tied <= 0.5:
        return None
    return f"{tied:.0%} of the rows share their score with at least 1% of all rows"


@_check("lone-value")
def _lone_score(case: Case) -> str | None:
    scores = case.scores or case.sketch
    value = isolated_value(scores.edges, scores.counts)
    return None if value is None else value.message("the score")


@_check("saturated-score")
def _saturated_score(case: Case) -> str | None:
    end = "lowest" if case.sketch.labeled_class == "negative" else "highest"
    samples = case.sketch.counts[:, [LABELED, UNLABELED]]
    samples = samples[samples.any(axis=1)]
    if (tied := tied_at_top(samples)) is not None:
        return (
            f"{tied[0]:.1%} of the labeled and {tied[1]:.1%} of the unlabeled rows tie at the "
            f"{end} score, which cannot rank them"
        )
    if (fractions := _rarer_at_the_top(samples)) is not None:
        top, below = fractions
        return (
            f"{top:.1%} of the rows with the {end} scores are labeled, but {below:.1%} of the rows "
            "next to them"
        )
    return None


def _rarer_at_the_top(counts: IntArray) -> tuple[float, float] | None:
    """The fractions of labeled rows at the top and below it, if lower at the top beyond chance.

    Below is the rest of the upper half of the labeled rows. `counts` are labeled and unlabeled rows
    by cell, shape (cells, 2).
    """
    from_above = counts[::-1].cumsum(0)
    labeled = from_above[:, 0] / from_above[-1, 0]
    half = from_above[np.searchsorted(labeled, 0.5)]
    for part in TOPS:
        top = from_above[np.searchsorted(labeled, part)]
        below = half - top
        if min(top.sum(), below.sum()) == 0:
            continue
        pooled = half[0] / half.sum()
        error = np.sqrt(pooled * (1 - pooled) * (1 / top.sum() + 1 / below.sum()))
        fractions = float(top[0] / top.sum()), float(below[0] / below.sum())
        if fractions[0] < fractions[1] - RARER * error:
            return fractions
    return None


@_check("alpha-near-zero", of_scores=False)
def _alpha_near_zero(case: Case) -> str | None:
    alpha = case.shown.alpha
    if alpha >= 0.01:
        return None
    at_most = "" if case.shown.alpha_ci is None else f", at most {percent(case.shown.alpha_ci[1])}"
    return f"alpha is close to zero ({percent(alpha)}{at_most})"


@_check("alpha-near-one", of_scores=False)
def _alpha_near_one(case: Case) -> str | None:
    alpha = case.shown.alpha
    if alpha <= 0.99:
        return None
    at_least = (
        "" if case.shown.alpha_ci is None else f", at least {percent(case.shown.alpha_ci[0])}"
    )
    return f"alpha is close to 100% ({percent(alpha)}{at_least})"


@_check("beta-not-above-alpha", of_scores=False)
def _beta_not_above_alpha(case: Case) -> str | None:
    alpha, beta = case.estimate.alpha, case.estimate.beta
    if beta - alpha >= 0.05:
        return None
    return (
        f"labeled rows contain hardly more {case.sketch.labeled_class}s ({percent(beta)}) "
        f"than unlabeled rows ({percent(alpha)})"
    )


@_check("refuted-by-auc", of_scores=False)
def _refuted_by_auc(case: Case) -> str | None:
    alpha, beta, auc = case.estimate.alpha, case.estimate.beta, case.sketch.auc
    max_auc = (1 + beta - alpha) / 2
    if auc - 3 * case.auc_error <= max_auc or not case.estimate.representative:
        return None
    return (
        f"alpha {percent(case.shown.alpha)} and beta {percent(beta)} are impossible: they allow an "
        f"AUC of at most {max_auc:.3f}, but the AUC is {auc:.3f}"
    )


@_check("estimate-at-interval-edge", of_scores=False)
def _estimate_at_interval_edge(case: Case) -> str | None:
    alpha = case.shown.alpha
    low, high = case.shown.alpha_ci or (alpha, alpha)
    if low == high or alpha not in (low, high):
        return None
    return f"alpha {percent(alpha)} is an end of its interval {show_interval((low, high))}"


@_check("wide-interval", of_scores=False)
def _wide_interval(case: Case) -> str | None:
    alpha = case.shown.alpha
    low, high = case.shown.alpha_ci or (alpha, alpha)
    if high - low <= min(WIDE * alpha, 0.4):
        return None
    width = f"{WIDE:g} times alpha" if WIDE * alpha < 0.4 else "40 percentage points"
    return f"the interval of alpha, {show_interval((low, high))}, is wider than {width}"


@_check("methods-disagree", of_scores=False)
def _methods_disagree(case: Case) -> str | None:
    low, high = case.estimate.alpha_ci or (0.0, 1.0)
    others = [
        f"{name} {show_interval(other.alpha_ci)}"
        for name, other in case.estimates.items()
        if other.alpha_ci is not None
        and _allows_noise(other)
        and (other.alpha_ci[0] > high or other.alpha_ci[1] < low)
    ]
    if not others:
        return None
    low, high = case.shown.alpha_ci or (0.0, 1.0)
    return (
        f"the interval of alpha, {show_interval((low, high))}, does not overlap the intervals of "
        f"{', '.join(others)}"
    )


def _allows_noise(estimate: Estimate) -> bool:
    """Whether a method allows for wrong labels; one that does not disagrees for that alone."""
    return estimate.beta_ci is not None and estimate.beta_ci[0] < estimate.beta_ci[1]
