"""From a sketch to a prior: the methods, their intervals, and what they cannot know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..audit.verdicts import METHOD, Audit, informed
from ..errors import EstimationError, InputError, UsageError, printable
from ..notices import Notice
from ..score.sketch import Sketch
from .base import ESTIMATORS, Estimate, Estimator, Interval, Samples, Settings, Shares, other_way
from .bound import limits
from .checks import Case, diagnose, diagnose_stated, missing_scores
from .document import CI_LEVEL, STATED, Prior

DEFAULT_METHOD, CURVE_METHOD, TESTING_METHOD = "auto", "alphamax-n", "subclasses"
REPLICATES = 100
ANYTHING: Interval = (0.0, 1.0)


def estimate_prior(
    sketch: Sketch,
    method: str,
    settings: Settings,
    *,
    samples: Samples | None = None,
    sample: str | None = None,
    notices: Sequence[Notice] = (),
    learned: bool = False,
    audit: Audit | None = None,
    competed: bool = False,
) -> Prior:
    """Run one method, or all of them, on the scores and where given on the feature tables.

    `notices` are those of the steps before; `learned` says that the score is a classifier's. The
    verdicts of an audit come before what `auto` says. Where the labeled rows are negatives, all is
    done for their class, and the answer turned round. Scores are `competed` where they are those of
    the best match of each spectrum.
    """
    given = sketch
    sketch, settings = _for_labeled_class(sketch, settings)
    estimates = {
        estimator.name: _with_intervals(estimator, sketch, samples, settings)
        for estimator in _chosen(method, samples, competed)
    }
    answering = answering_method(method)
    answer = estimates[answering]
    if not np.isfinite([answer.alpha, answer.beta]).all():
        raise EstimationError(f"{answering} found no estimate")
    case = Case(sketch, answer, estimates, learned, settings.labeled_negatives, given)
    if not case.ranks_labeled_higher:  # the scores tell nothing, so nothing can be ruled out
        beta_ci = ANYTHING if settings.beta is None else answer.beta_ci
        answer = replace(answer, alpha_ci=ANYTHING, beta_ci=beta_ci, draws=None)
        estimates[answering], case = answer, replace(case, estimate=answer)
    if audit is not None:
        of_class = audit.turned() if settings.labeled_negatives else audit
        answer = informed(answer, of_class, sketch, settings)
        answering, answer = METHOD, replace(answer, notices=audit.notices(settings.seed))
        estimates[answering], case = answer, replace(case, estimate=answer)
    two_sets = sketch.without_negatives()
    alpha_max, beta_min = limits(two_sets)
    curve_of = estimates.get(CURVE_METHOD) or ESTIMATORS[CURVE_METHOD].estimate(two_sets, settings)
    found = Prior(
        method=answering,
        seed=settings.seed,
        n_labeled=sketch.n_labeled,
        n_unlabeled=sketch.n_unlabeled,
        answer=answer,
        auc_pu=sketch.auc,
        estimates=estimates,
        notices=(*notices, *diagnose(case), *_unused(sketch, answering), *_said(answer, estimates)),
        curves=curve_of.curves,
        alpha_max=alpha_max if answer.typical else None,
        beta_min=beta_min,
        sample=sample,
        n_verdicts=None if audit is None else len(audit.known),
        n_negatives=sketch.n_negative or None,
        audit=None if audit is None else audit.to_json(settings.seed),
    )
    return found.turned() if settings.labeled_negatives else found


def _for_labeled_class(sketch: Sketch, settings: Settings) -> tuple[Sketch, Settings]:
    """The scores and settings such that labeled rows score high and α is their class's share."""
    if not sketch.n_unlabeled:
        raise InputError(
            "alpha cannot be estimated without unlabeled rows: state it, with --alpha of 'run' or "
            "'posterior'"
        )
    if not settings.labeled_negatives:
        return sketch, settings
    turned = replace(settings, alpha_between=other_way(settings.alpha_between))
    return sketch.mirrored(), turned


def stated_prior(
    sketch: Sketch,
    shares: Shares,
    seed: int,
    sample: str | None,
    notices: Sequence[Notice],
    learned: bool = False,
) -> Prior:
    """What the user states of these rows instead of estimating it."""
    negatives = sketch.labeled_class == "negative"
    beta = 1 - shares.beta if negatives else shares.beta
    auc_pu = None
    if sketch.n_unlabeled:
        auc_pu = 1 - sketch.auc if negatives else sketch.auc
    return Prior(
        method=STATED,
        seed=seed,
        n_labeled=sketch.n_labeled,
        n_unlabeled=sketch.n_unlabeled,
        answer=Estimate(shares.alpha, beta),
        auc_pu=auc_pu,
        estimates={},
        notices=(
            *notices,
            *missing_scores(sketch.missing),
            *diagnose_stated(sketch, shares.alpha, beta, learned),
        ),
        curves={},
        sample=sample,
        n_negatives=sketch.n_negative or None,
        labeled_negatives=negatives,
    )


def failed_prior(method: str, seed: int, error: Exception, sample: str | None) -> Prior:
    """The prior that is written where estimation or its input fails and a file is wanted."""
    code = "bad-input" if isinstance(error, InputError) else "estimation-failed"
    notices = (Notice(code, printable(str(error))),)
    answering = answering_method(method)
    return Prior(answering, seed, None, None, None, None, {}, notices, {}, sample=sample)


def answering_method(method: str) -> str:
    """The method whose estimate is the answer."""
    return DEFAULT_METHOD if method == "all" else method


def needs_features(method: str) -> bool:
    """Whether a method, or one of all, reads the feature tables themselves."""
    return method == "all" or ESTIMATORS[method].needs == "features"


def _unused(sketch: Sketch, method: str) -> tuple[Notice, ...]:
    """The warning that a method does not use the known negatives, where it does not."""
    used = method not in ESTIMATORS or ESTIMATORS[method].negatives
    if used or not sketch.n_negative:
        return ()
    return (
        Notice(
            "negatives-not-used",
            f"{method} does not use the {sketch.n_negative} known negatives; auto does",
        ),
    )


def _said(answer: Estimate, estimates: Mapping[str, Estimate]) -> tuple[Notice, ...]:
    """The warnings of the answering method, and of that which tests if labels are typical."""
    tested = estimates.get(TESTING_METHOD, answer)
    return answer.notices if tested is answer else (*answer.notices, *tested.notices)


def _chosen(method: str, samples: Samples | None, competed: bool) -> Sequence[Estimator]:
    there = {"scores": True, "features": samples is not None, "matches": competed}
    if method == "all":
        return [e for e in ESTIMATORS.values() if there[e.needs]]
    estimator = ESTIMATORS[method]
    if estimator.needs == "features" and samples is None:
        raise UsageError(f"--method {method} needs the feature tables: --labeled and --unlabeled")
    if estimator.needs == "matches" and not competed:
        raise UsageError(
            f"--method {method} counts the best match of each spectrum, so it needs the matches: a "
            ".pin file, or --spectrum-columns"
        )
    return [estimator]


def _with_intervals(
    estimator: Estimator, sketch: Sketch, samples: Samples | None, settings: Settings
) -> Estimate:
    """The estimate, with percentile intervals over bootstrap samples where it has none itself."""
    if not estimator.negatives:
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
