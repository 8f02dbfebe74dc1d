"""The prior in words, for the terminal and the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import option
from .base import Interval
from .document import MISCALIBRATED, AuditResult, Prior

VERIFIED_ROWS = 100  # rows to verify by hand, in the advice
CLEAN_BETA = 0.9  # a β to know beforehand, in the advice
MIN_DRAWS = 20  # with such a β, for an interval of α
LITTLE = 0.005  # a fraction below which a lower end, or an assumption, is as good as none...
FAR_BELOW = 0.1  # ... but a lower end only if it is below this part of the upper one


def decimals(fraction: float, digits: int) -> str:
    """A fraction as the terminal shows it."""
    return f"{fraction:.{digits}f}"


class Wording(NamedTuple):
    """How sentences name α and β, and show a fraction to a number of digits."""

    alpha: str
    beta: str
    show: Callable[[float, int], str]


TERMINAL = Wording("alpha", "beta", decimals)


def summarize_prior(prior: Prior) -> list[str]:
    """The answer in a few lines of text; with several methods, also a small table."""
    answer = prior.answer
    if answer is None:
        return ["alpha  not estimated", "beta   not estimated"]
    rows = "rows of the population" if prior.n_unlabeled == 0 else "unlabeled rows"
    lines = [
        f"alpha  {with_interval(answer.alpha, answer.alpha_ci)}  of the {rows} are positive",
        f"beta   {with_interval(answer.beta, answer.beta_ci)}  of the labeled rows are "
        f"{prior.labeled_class}",
        *(f"{name:<7}{text}" for name, text in certainty(prior).items()),
    ]
    if prior.auc_pu is not None:
        auc = "" if prior.auc is None else f", {prior.auc:.3f} positives against negatives"
        lines.append(f"AUC    {prior.auc_pu:.3f} labeled against unlabeled{auc}")
    negatives = f", {prior.n_negatives} known negatives" if prior.n_negatives else ""
    lines.append(f"rows   {prior.n_labeled} labeled, {prior.n_unlabeled} unlabeled{negatives}")
    if len(prior.estimates) > 1:
        lines.append(f"{'method':<14}{'alpha':<26}beta")
        lines += [
            f"{e.method:<14}{with_interval(e.alpha, e.alpha_ci):<26}"
            f"{with_interval(e.beta, e.beta_ci)}"
            for e in prior.estimates
        ]
    return lines


def certainty(prior: Prior, words: Wording = TERMINAL) -> dict[str, str]:
    """What is certain, what the intervals assume and what would narrow them, a line each."""
    lines = {
        "sure": _limits(prior, words),
        "seen": "" if prior.audit is None else _verdicts(prior.audit),
        "given": _assumptions(prior, words),
        "next": "; ".join(_advice(prior, words)),
    }
    return {name: text for name, text in lines.items() if text}


def _limits(prior: Prior, words: Wording) -> str:
    """The limits of α and β, unless both allow everything."""
    if prior.labeled_class == "negative":
        limit, side, trivial = prior.alpha_min, "least", 0
    else:
        limit, side, trivial = prior.alpha_max, "most", 1
    if limit is None or prior.beta_min is None or (limit == trivial and prior.beta_min == 0):
        return ""
    return (
        f"{words.alpha} is at {side} {words.show(limit, 3)} and {words.beta} at least "
        f"{words.show(prior.beta_min, 3)}, however the classes overlap"
    )


def _verdicts(audit: AuditResult) -> str:
    """What the verified rows say of the posteriors."""
    counts = []
    for name in ("unlabeled", "labeled"):
        strata = [stratum for stratum in audit.strata if stratum.set == name]
        if verdicts := sum(stratum.verdicts for stratum in strata):
            positive = sum(stratum.positive for stratum in strata)
            expected = sum(stratum.expected for stratum in strata)
            counts.append(f"{positive} of {verdicts} {name} rows ({expected:.1f} expected)")
    agree = "agree with" if audit.calibration_p >= MISCALIBRATED else "contradict"
    return f"positive are {' and '.join(counts)} that were verified, which {agree} the posteriors"


def _assumptions(prior: Prior, words: Wording) -> str:
    """What the intervals assume beyond the distribution of α and β; empty if nothing."""
    assumed = prior.assumed
    if assumed is None or not prior.draws:
        return ""
    if is_contradicted(prior):
        return "with care, as the scores contradict what was to be assumed (see the warning)"
    ranges = {words.alpha: assumed.alpha_between, words.beta: assumed.beta_between}
    clauses = [
        f"{name} is between {words.show(between[0], 3)} and {words.show(between[1], 3)}"
        for name, between in ranges.items()
        if between is not None
    ]
    if assumed.purity >= LITTLE:
        best = "lowest-scoring" if prior.labeled_class == "negative" else "best"
        clauses.append(
            f"at least {100 * assumed.purity:.0f} % of the unlabeled rows that score like the "
            f"{best} labeled ones are {prior.labeled_class} ({option('purity')})"
        )
    return f"that {', and that '.join(clauses)}" if clauses else ""


def is_contradicted(prior: Prior) -> bool:
    """Whether the scores all but rule out an assumption."""
    return any(notice.code == "assumption-contradicted" for notice in prior.notices)


def _advice(prior: Prior, words: Wording) -> list[str]:
    """What would narrow the interval of α."""
    if prior.alpha is None or prior.assumed is None:
        return []
    advice = []
    draws = prior.draws or ()
    clean = [alpha for alpha, beta in draws if beta >= CLEAN_BETA]
    if MIN_DRAWS < len(clean) < len(draws):
        low, high = (float(end) for end in np.quantile(clean, [0.025, 0.975]))
        advice.append(
            f"if {words.beta} is at least {words.show(CLEAN_BETA, 1)}, {words.alpha} is in "
            f"[{_show_low((low, high), words.show)}, {words.show(high, 4)}]"
        )
    error = 1.96 * math.sqrt(prior.alpha * (1 - prior.alpha) / VERIFIED_ROWS)
    low, high = prior.alpha_ci or (0.0, 1.0)
    if 2 * error < high - low:
        advice.append(
            f"{VERIFIED_ROWS} unlabeled rows checked at random would give {words.alpha} ± "
            f"{words.show(error, 2)}"
        )
    return advice


def with_interval(fraction: float, interval: Interval | None) -> str:
    """A fraction with its interval, to four decimals."""
    if interval is None:
        return f"{fraction:.4f}"
    return f"{fraction:.4f} [{_show_low(interval, decimals)}, {interval[1]:.4f}]"


def lower_end(interval: Interval) -> float:
    """The lower end of an interval as it is shown: 0 if it is as good as that."""
    low, high = interval
    return low if low >= min(LITTLE, FAR_BELOW * high) else 0.0


def _show_low(interval: Interval, show: Callable[[float, int], str]) -> str:
    low = lower_end(interval)
    return show(low, 4) if low else "0"
