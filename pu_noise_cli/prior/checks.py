"""What about scores and estimates should make a reader careful, one function for each warning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..notices import Notice
from ..numerics import IntArray
from ..score.sketch import Sketch
from ..tables.columns import isolated_value, tied_at_top
from ..tables.rows import LABELED, NEGATIVE, UNLABELED
from .base import Estimate

TOPS = (0.1, 0.05)  # shares of the labeled rows that are looked at as the top
RARER = 3.5  # standard errors, by which labeled rows are rarer there
Check = Callable[["Case"], str | None]  # the message, where the warning is due


@dataclass(frozen=True)
class Case:
    """The scores, the answer, and what else is known."""

    sketch: Sketch
    estimate: Estimate
    estimates: Mapping[str, Estimate] = field(default_factory=dict)  # of all methods that ran
    learned: bool = False  # the score is known to be a classifier's, not a column's
    labeled_negatives: bool = False  # all is of the class of the labeled rows, scores turned round
    given: Sketch | None = None  # the scores before they were turned

    @property
    def shown(self) -> Estimate:
        """The answer with α as the share of positives."""
        return self.estimate.turned() if self.labeled_negatives else self.estimate

    @property
    def higher(self) -> str:
        """How labeled rows should score."""
        return "lower" if self.labeled_negatives else "higher"

    @property
    def against(self) -> int:
        """The set that labeled rows are compared with: known negatives if nothing is unlabeled."""
        return UNLABELED if self.sketch.n_unlabeled else NEGATIVE

    @cached_property
    def auc(self) -> float:
        """P(labeled score > score of the other set) + P(equal) / 2."""
        return self.sketch.auc_against(self.against)

    @cached_property
    def spread(self) -> float:
        """The standard error of the AUC where the two samples do not differ."""
        n_labeled, n_other = self.sketch.n_labeled, int(self.sketch.counts[:, self.against].sum())
        return float(np.sqrt((n_labeled + n_other + 1) / (12 * n_labeled * n_other)))

    @property
    def ranks_labeled_higher(self) -> bool:
        """Whether labeled rows score higher by more than chance."""
        return self.auc >= 0.5 + 3 * self.spread


_CHECKS: list[tuple[str, Check]] = []


def diagnose(case: Case) -> tuple[Notice, ...]:
    """The warnings that are due."""
    found = ((code, check(case)) for code, check in _CHECKS)
    due = (Notice(code, message) for code, message in found if message is not None)
    return (*missing_scores(case.sketch.missing), *due)


def diagnose_stated(
    sketch: Sketch, alpha: float, beta: float, learned: bool = False
) -> tuple[Notice, ...]:
    """The warnings that are due where α and β are the user's own: that the score is reversed."""
    turned = sketch.labeled_class == "negative"
    estimate = Estimate(1 - alpha if turned else alpha, beta)
    case = Case(sketch.mirrored() if turned else sketch, estimate, {}, learned, turned)
    message = _reversed_scores(case)
    return () if message is None else (Notice("reversed-scores", message),)


def missing_scores(rows: int) -> tuple[Notice, ...]:
    """The warning that so many rows have no score, if there are any."""
    if rows == 0:
        return ()
    return (Notice("missing-scores", f"{rows} rows have no score, so they count nowhere"),)


def _check(code: str) -> Callable[[Check], Check]:
    def enter(check: Check) -> Check:
        _CHECKS.append((code, check))
        return check

    return enter


@_check("few-rows")
def _few_rows(case: Case) -> str | None:
    n_labeled, n_unlabeled = case.sketch.n_labeled, case.sketch.n_unlabeled
    if min(n_labeled, n_unlabeled) >= 100:
        return None
    return f"{n_labeled} labeled and {n_unlabeled} unlabeled rows do not say much"


@_check("indistinguishable")
def _indistinguishable(case: Case) -> str | None:
    if case.ranks_labeled_higher:
        return None
    return (
        f"labeled rows do not score {case.higher} than unlabeled ones "
        f"(AUC {case.sketch.auc:.3f}): "
        "alpha is not identifiable"
    )


@_check("reversed-scores")
def _reversed_scores(case: Case) -> str | None:
    if case.learned or case.auc >= 0.5 - 3 * case.spread:
        return None
    if case.labeled_negatives:
        return (
            f"labeled negatives score higher than unlabeled rows (AUC {case.auc:.3f}); are they "
            "positives, or do low scores mean positive (--lower-is-positive)?"
        )
    others = "unlabeled ones" if case.against == UNLABELED else "known negatives"
    return (
        f"labeled rows score lower than {others} (AUC {case.auc:.3f}); if low scores mean "
        "positive, say --lower-is-positive with --score-column; if you have, leave it out; if "
        "the labeled rows are negatives, say so with --labeled-are"
    )


@_check("separable")
def _separable(case: Case) -> str | None:
    if case.sketch.auc <= 1 - 1e-3:
        return None
    return (
        "the scores tell labeled from unlabeled rows almost perfectly "
        f"(AUC {case.sketch.auc:.4f}): either hardly any unlabeled row is positive or a column "
        "gives the label away"
    )


@_check("tied-scores")
def _tied_scores(case: Case) -> str | None:
    total = case.sketch.labeled + case.sketch.unlabeled
    share = total / total.sum()
    tied = float(share[share >= 0.01].sum())
    if tied <= 0.5:
        return None
    return f"{tied:.0%} of the rows share their score with at least 1 % of all rows"


@_check("lone-value")
def _lone_score(case: Case) -> str | None:
    sketch = case.given or case.sketch
    found = isolated_value(sketch.edges, sketch.counts)
    return None if found is None else found.message("the score")


@_check("saturated-score")
def _saturated_score(case: Case) -> str | None:
    end = "lowest" if case.labeled_negatives else "highest"
    samples = case.sketch.without_negatives().counts[:, [LABELED, UNLABELED]]
    if (tied := tied_at_top(samples)) is not None:
        of_labeled, of_unlabeled = tied
        return (
            f"{of_labeled:.1%} of the labeled and {of_unlabeled:.1%} of the unlabeled rows have "
            f"the {end} score"
        )
    if (shares := _rarer_at_the_top(samples)) is not None:
        top, below = shares
        return (
            f"{top:.1%} of the rows with the {end} scores are labeled, and {below:.1%} of those "
            "next to them"
        )
    return None


def _rarer_at_the_top(counts: IntArray) -> tuple[float, float] | None:
    """The share of labeled rows at the top and below, if it is less there by more than chance.

    `counts` are labeled and unlabeled rows by cell, shape (cells, 2). What is below is the rest of
    the upper half of the labeled rows.
    """
    from_above = counts[::-1].cumsum(0)
    labeled = from_above[:, 0] / from_above[-1, 0]
    half = from_above[np.searchsorted(labeled, 0.5)]
    for part in TOPS:
        top = from_above[np.searchsorted(labeled, part)]
        next_ = half - top
        if min(top.sum(), next_.sum()) == 0:
            continue
        both = half[0] / half.sum()
        spread = np.sqrt(both * (1 - both) * (1 / top.sum() + 1 / next_.sum()))
        shares = float(top[0] / top.sum()), float(next_[0] / next_.sum())
        if shares[0] < shares[1] - RARER * spread:
            return shares
    return None


@_check("alpha-near-zero")
def _alpha_near_zero(case: Case) -> str | None:
    alpha = case.shown.alpha
    return f"alpha {alpha:.4f} is near 0: hardly any positives" if alpha < 0.01 else None


@_check("alpha-near-one")
def _alpha_near_one(case: Case) -> str | None:
    alpha = case.shown.alpha
    return f"alpha {alpha:.4f} is near 1: hardly any negatives" if alpha > 0.99 else None


@_check("beta-not-above-alpha")
def _beta_not_above_alpha(case: Case) -> str | None:
    alpha, beta = case.estimate.alpha, case.estimate.beta
    if beta - alpha >= 0.05:
        return None
    if case.labeled_negatives:
        return f"the labeled rows are hardly richer in negatives ({beta:.3f}) than the unlabeled"
    return (
        f"beta {beta:.3f} is hardly above alpha {alpha:.3f}: "
        "the labeled rows are not richer in positives than the unlabeled ones"
    )


@_check("refuted-by-auc")
def _refuted_by_auc(case: Case) -> str | None:
    alpha, beta, auc = case.estimate.alpha, case.estimate.beta, case.sketch.auc
    most = (1 + beta - alpha) / 2
    if auc - 3 * case.spread <= most or not case.estimate.typical:
        return None
    return (
        f"alpha {case.shown.alpha:.3f} and beta {beta:.3f} allow an AUC of labeled against "
        f"unlabeled rows of at most {most:.3f}, and it is {auc:.3f}"
    )


@_check("estimate-at-interval-edge")
def _estimate_at_interval_edge(case: Case) -> str | None:
    alpha = case.shown.alpha
    low, high = case.shown.alpha_ci or (alpha, alpha)
    if low == high or alpha not in (low, high):
        return None
    return f"alpha {alpha:.4f} lies on the edge of its interval [{low:.4f}, {high:.4f}]"


@_check("wide-interval")
def _wide_interval(case: Case) -> str | None:
    alpha = case.shown.alpha
    low, high = case.shown.alpha_ci or (alpha, alpha)
    if high - low <= min(alpha, 0.4):
        return None
    return f"alpha {alpha:.3f} may be anything from {low:.3f} to {high:.3f}"


@_check("methods-disagree")
def _methods_disagree(case: Case) -> str | None:
    low, high = case.estimate.alpha_ci or (0.0, 1.0)
    against = [
        name
        for name, other in case.estimates.items()
        if other.alpha_ci is not None
        and _takes_noise(other)
        and (other.alpha_ci[0] > high or other.alpha_ci[1] < low)
    ]
    if not against:
        return None
    low, high = case.shown.alpha_ci or (0.0, 1.0)
    return (
        f"the intervals of {', '.join(against)} lie outside that of alpha, {low:.3f} to {high:.3f}"
    )


def _takes_noise(estimate: Estimate) -> bool:
    """Whether a method allows for label noise; one that does not contradicts for that alone."""
    return estimate.beta_ci is not None and estimate.beta_ci[0] < estimate.beta_ci[1]
