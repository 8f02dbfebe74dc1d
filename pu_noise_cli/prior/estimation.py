"""From a sketch to a prior: run methods, attach intervals, and conclude with warnings and limits.

Methods see the labeled class on top: where labeled rows are negatives, `run_methods` mirrors the
scores on the way in, and `conclude` turns the estimates on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from ..errors import EstimationError, InputError, UsageError, option, printable
from ..notices import Notice
from ..score.sketch import Sketch
from ..tables.rows import LabeledClass
from .base import ESTIMATORS, Estimate, Estimator, Interval, Samples, Settings
from .bound import limits, limits_by_selection
from .checks import Case, diagnose, diagnose_direction, uncounted
from .document import CI_LEVEL, AuditResult, MethodEstimate, Prior, ProfileCurve, percent

DEFAULT_METHOD, CURVE_METHOD, TESTING_METHOD = "auto", "alphamax-n", "subclasses"
REPLICATES = 100


@dataclass(frozen=True)
class Estimation:
    """Estimates from scores, with the labeled class on top: α is the fraction of that class."""

    scores: Sketch  # as they are: high means positive
    sketch: Sketch  # high means the labeled class
    settings: Settings  # alpha_between is of the labeled class, too
    estimates: Mapping[str, Estimate]
    method: str  # whose estimate is the answer
    learned: bool = False  # a classifier gave the scores
    audit: AuditResult | None = None
    n_verdicts: int | None = None


def estimate_prior(
    sketch: Sketch,
    method: str,
    settings: Settings,
    *,
    learned: bool = False,
    sample: str | None = None,
) -> Prior:
    """Estimate α and β from scores; see `run_methods` and `conclude`."""
    estimation = run_methods(sketch, method, settings, learned=learned)
    return conclude(estimation, sample=sample)


# ---- Steps


def run_methods(
    sketch: Sketch,
    method: str,
    settings: Settings,
    *,
    samples: Samples | None = None,
    learned: bool = False,
) -> Estimation:
    """Estimate α and β by one method, or by all that can be run.

    Parameters
    ----------
    sketch
        The scores; its labeled class says what the labels mean.
    method
        A name in ESTIMATORS, or `all`.
    samples
        The feature tables, for the methods that need them.
    learned
        Whether a classifier gave the scores.
    """
    if not sketch.n_unlabeled:
        raise InputError(
            f"alpha cannot be estimated without unlabeled rows: state it with {option('alpha')} of "
            "'run' or 'posterior'"
        )
    scores = sketch
    if sketch.labeled_class == "negative":
        sketch = labeled_class_on_top(sketch, "negative")
        settings = replace(settings, alpha_between=_mirror(settings.alpha_between))
        samples = samples and replace(samples, labeled_class="negative")
    estimates = {
        estimator.name: _with_intervals(estimator, sketch, samples, settings)
        for estimator in _select(method, samples)
    }
    chosen = answering_method(method)
    answer = estimates[chosen]
    if not np.isfinite([answer.alpha, answer.beta]).all():
        raise EstimationError(f"{chosen} gives no estimate")
    return Estimation(scores, sketch, settings, estimates, chosen, learned)


def conclude(
    estimation: Estimation, *, sample: str | None = None, notices: Sequence[Notice] = ()
) -> Prior:
    """Add limits, curves and warnings to estimates; α becomes the fraction of positives.

    Parameters
    ----------
    sample
        The name of the sample.
    notices
        Warnings of earlier steps.
    """
    sketch, settings, estimates = estimation.sketch, estimation.settings, estimation.estimates
    negatives = sketch.labeled_class == "negative"
    shown = {name: _turn(e) if negatives else e for name, e in estimates.items()}
    answer, answer_shown = estimates[estimation.method], shown[estimation.method]
    tested = estimates.get(TESTING_METHOD, answer)  # its warnings about the labels always count
    case = Case(sketch, answer, estimates, estimation.learned, answer_shown, estimation.scores)
    identifiable = _is_identifiable(case, estimation)
    notices = (
        *notices,
        *diagnose(case, identifiable),
        *_unused_negatives(sketch, estimation.method),
        *answer.notices,
        *(tested.notices if tested is not answer else ()),
    )
    about: dict[str, Any] = {
        "method": estimation.method,
        "seed": settings.seed,
        "labeled_are": "negatives" if negatives else "positives",
        "n_labeled": sketch.n_labeled,
        "n_unlabeled": sketch.n_unlabeled,
        "n_negatives": sketch.n_negative or None,
        "n_overlap": sketch.overlap or None,
        "auc_pu": sketch.auc,
        "sample": sample,
    }
    if not identifiable:
        return Prior(alpha=None, beta=None, notices=notices, **about)
    allowed, contradiction = _allowed_limits(estimation, answer)
    curves = (estimates.get(CURVE_METHOD) or _alphamax(sketch, settings)).curves
    return Prior(
        **about,
        **allowed,
        n_verdicts=estimation.n_verdicts,
        assumed=answer_shown.assumed,
        audit=estimation.audit,
        auc=corrected_auc(sketch.auc, answer_shown.alpha, answer_shown.beta, sketch.labeled_class),
        notices=(*notices, *contradiction),
        estimates=tuple(
            MethodEstimate(method=name, converged=e.converged, **_fractions(e))
            for name, e in shown.items()
        ),
        draws=answer_shown.draws,
        curves={
            name: ProfileCurve(
                proportion=tuple(curve.proportion.tolist()),
                log_likelihood=tuple(curve.log_likelihood.tolist()),
            )
            for name, curve in curves.items()
        }
        or None,
        **_fractions(answer_shown),
    )


def _is_identifiable(case: Case, estimation: Estimation) -> bool:
    """Whether the scores or verdicts say anything about α."""
    return estimation.audit is not None or case.ranks_labeled_higher


def _allowed_limits(
    estimation: Estimation, answer: Estimate
) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """The limits that leave all of the intervals, and what they assume of the labeled rows.

    Verified rows are right where they contradict a limit, which then says that the labeled rows
    are not representative.
    """
    if not answer.representative:
        return {}, ()
    sketch = estimation.sketch
    negatives = sketch.labeled_class == "negative"
    alpha_max, beta_min = limits(sketch)
    low, high = answer.alpha_ci or (answer.alpha, answer.alpha)
    lowest_beta, highest_beta = answer.beta_ci or (answer.beta, answer.beta)
    verified = estimation.audit.strata if estimation.audit is not None else ()
    is_checked = any(stratum.set == "unlabeled" for stratum in verified)
    if is_checked and low > alpha_max:
        return {"representative": "contradicted"}, (_contradiction(low, alpha_max, negatives),)
    kept: dict[str, Any] = {"representative": "checked" if is_checked else "assumed"}
    if beta_min <= lowest_beta < highest_beta:  # a β that is fixed needs no limit
        kept["beta_min"] = beta_min
    stated = estimation.settings.alpha_between or (0.0, 1.0)  # nothing beyond is possible
    if high <= alpha_max <= stated[1]:
        kept |= {"alpha_min": 1 - alpha_max} if negatives else {"alpha_max": alpha_max}
    if not is_checked and not negatives:
        limits_of = limits_by_selection(sketch)
        pairs = tuple(pair for pair in limits_of if high <= pair[1] <= stated[1])
        kept["alpha_max_by_selection"] = pairs or None
    return kept, ()


def _contradiction(low: float, alpha_max: float, negatives: bool) -> Notice:
    """The warning that verified rows contradict the limit of α, the labeled class's fraction."""
    side, beyond, name = "or more", "above", "positives"
    if negatives:
        low, alpha_max, side, beyond, name = 1 - low, 1 - alpha_max, "or less", "below", "negatives"
    message = (
        f"the verified rows put alpha at {percent(low)} {side}, {beyond} the limit of "
        f"{percent(alpha_max)} from the scores: labeled {name} are not representative, so the "
        "limits are dropped"
    )
    return Notice("labels-not-representative", message)


def _fractions(estimate: Estimate) -> dict[str, Any]:
    """The fractions and intervals that PRIOR.json has of an answer and of every method."""
    names = ("alpha", "alpha_ci", "alpha_ci_sampling", "beta", "beta_ci", "alpha_plus", "beta_plus")
    return {name: getattr(estimate, name) for name in names}


def stated_prior(
    sketch: Sketch,
    prior: Prior,
    *,
    seed: int = 0,
    sample: str | None = None,
    notices: Sequence[Notice] = (),
    learned: bool = False,
) -> Prior:
    """Complete a prior that the user states, with what the scores of the rows say."""
    auc_pu, auc = None, None
    if sketch.n_unlabeled:
        auc_pu = 1 - sketch.auc if prior.labeled_class == "negative" else sketch.auc
        auc = corrected_auc(auc_pu, *prior.estimated, prior.labeled_class)
    return msgspec.structs.replace(
        prior,
        seed=seed,
        n_labeled=sketch.n_labeled,
        n_unlabeled=sketch.n_unlabeled,
        n_negatives=sketch.n_negative or None,
        n_overlap=sketch.overlap or None,
        auc_pu=auc_pu,
        auc=auc,
        sample=sample,
        notices=(*notices, *uncounted(sketch), *check_stated(sketch, prior, learned)),
    )


def check_stated(sketch: Sketch, prior: Prior, learned: bool = False) -> tuple[Notice, ...]:
    """The warning that the score is reversed, for α and β that the user states."""
    sketch = labeled_class_on_top(sketch, prior.labeled_class)
    return diagnose_direction(Case(sketch, Estimate(*prior.estimated), learned=learned))


def elbows(prior: Prior, sketch: Sketch) -> dict[str, float | None]:
    """AlphaMax's own α⁺ and β⁺ for the curves of a prior: as estimated, or from the scores.

    Empty if they are the answer, and if the curves are those of other rows.
    """
    if not prior.curves or prior.method == CURVE_METHOD:
        return {}
    if prior.labeled_class == "positive":
        for estimate in prior.estimates:
            if estimate.method == CURVE_METHOD:
                return {"alpha_plus": estimate.alpha_plus, "beta_plus": estimate.beta_plus}
    if (prior.n_labeled, prior.n_unlabeled) != (sketch.n_labeled, sketch.n_unlabeled):
        return {}
    alphamax = _alphamax(labeled_class_on_top(sketch, prior.labeled_class), Settings())
    return {"alpha_plus": alphamax.alpha_plus, "beta_plus": alphamax.beta_plus}


def failed_prior(method: str, seed: int, error: Exception, sample: str | None) -> Prior:
    """The prior to write if estimation or its input failed and a file is wanted all the same."""
    code = "bad-input" if isinstance(error, InputError) else "estimation-failed"
    return Prior(
        method=answering_method(method),
        seed=seed,
        alpha=None,
        beta=None,
        sample=sample,
        notices=(Notice(code, printable(str(error))),),
    )


# ---- Parts of the steps


def answering_method(method: str) -> str:
    """The method whose estimate is the answer."""
    return DEFAULT_METHOD if method == "all" else method


def needs_features(method: str) -> bool:
    """Whether a method, or one of all, reads the feature tables themselves."""
    return method == "all" or ESTIMATORS[method].needs == "features"


def corrected_auc(
    auc_pu: float, alpha: float, beta: float, labeled_class: LabeledClass = "positive"
) -> float | None:
    """The AUC of positives against negatives, from that of labeled against unlabeled rows.

    Parameters
    ----------
    auc_pu
        With the labeled class on top.
    alpha
        The fraction of positives among unlabeled rows.
    beta
        The fraction of the labels that are correct.
    """
    excess = beta - (1 - alpha if labeled_class == "negative" else alpha)
    return float(np.clip(0.5 + (auc_pu - 0.5) / excess, 0, 1)) if excess > 0 else None


def labeled_class_on_top(sketch: Sketch, labeled_class: LabeledClass) -> Sketch:
    """The scores, mirrored if the labeled rows are negatives."""
    if labeled_class == "positive":
        return sketch
    return replace(sketch.mirrored(), labeled_class="negative")


def _alphamax(sketch: Sketch, settings: Settings) -> Estimate:
    """The estimate that has the curves, from labeled and unlabeled rows."""
    two_sets = sketch.without_negatives() if sketch.n_negative else sketch
    return ESTIMATORS[CURVE_METHOD].estimate(two_sets, settings)


def _mirror(interval: Interval | None) -> Interval | None:
    """The interval of one minus a fraction."""
    return None if interval is None else (1 - interval[1], 1 - interval[0])


def _turn(estimate: Estimate) -> Estimate:
    """The same estimate with α as the fraction of the other class."""
    assumed = estimate.assumed
    if assumed is not None:
        assumed = msgspec.structs.replace(
            assumed,
            alpha_between=_mirror(assumed.alpha_between),
            sensitivity=tuple((p, 1 - high, 1 - low) for p, low, high in assumed.sensitivity),
        )
    draws = estimate.draws
    return replace(
        estimate,
        alpha=1 - estimate.alpha,
        alpha_plus=None,  # of the labeled class, so no limit of this α
        beta_plus=None,
        alpha_ci=_mirror(estimate.alpha_ci),
        alpha_ci_sampling=_mirror(estimate.alpha_ci_sampling),
        draws=draws and tuple((1 - alpha, beta) for alpha, beta in reversed(draws)),
        assumed=assumed,
    )


def _unused_negatives(sketch: Sketch, method: str) -> tuple[Notice, ...]:
    """The warning that a method does not use the known negatives."""
    if not sketch.n_negative or method not in ESTIMATORS or ESTIMATORS[method].negatives:
        return ()
    message = f"{method} does not use the {sketch.n_negative} known negatives; auto does"
    return (Notice("negatives-not-used", message),)


def _select(method: str, samples: Samples | None) -> Sequence[Estimator]:
    """The estimators of a method that can be run on what there is."""
    available = {"scores": True, "features": samples is not None}
    if method == "all":
        return [e for e in ESTIMATORS.values() if available[e.needs] and ":" not in e.name]
    estimator = ESTIMATORS[method]
    if not available[estimator.needs]:
        tables = f"the feature tables: {option('labeled')} and {option('unlabeled')}"
        raise UsageError(f"{option('method', method)} needs {tables}")
    return [estimator]


def _with_intervals(
    estimator: Estimator, sketch: Sketch, samples: Samples | None, settings: Settings
) -> Estimate:
    """The estimate, with percentile intervals over bootstrap samples if it has none itself."""
    if sketch.n_negative and not estimator.negatives:
        sketch = sketch.without_negatives()
    data = samples if estimator.needs == "features" else sketch
    estimate = estimator.estimate(data, settings)
    if estimator.needs == "features" or estimate.alpha_ci is not None:
        return estimate
    rng = np.random.default_rng([settings.seed, 1])
    copies = [estimator.estimate(sketch.resample(rng), settings) for _ in range(REPLICATES)]
    tail = (1 - CI_LEVEL) / 2

    def interval(values: list[float], center: float) -> Interval:
        low, high = np.quantile(values, [tail, 1 - tail])
        return min(float(low), center), max(float(high), center)

    alpha_ci = interval([copy.alpha for copy in copies], estimate.alpha)
    return replace(
        estimate,
        alpha_ci=alpha_ci,
        alpha_ci_sampling=alpha_ci,
        beta_ci=interval([copy.beta for copy in copies], estimate.beta),
        draws=tuple((float(copy.alpha), float(copy.beta)) for copy in copies),
    )
