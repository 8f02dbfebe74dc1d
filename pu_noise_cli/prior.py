"""PRIOR.json: the estimates of α and β with their intervals, and what to be wary of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import __version__
from .errors import EstimationError, InputError, Notice, UsageError
from .estimators import ESTIMATORS, Curve, Estimate, Estimator, Samples, Settings
from .posterior import PriorShares, ScoresSeen
from .sketch import Sketch

SCHEMA = "punoise.prior/1"
CI_LEVEL = 0.95
DEFAULT_METHOD, CURVE_METHOD = "auto", "alphamax-n"
REPLICATES = 100


@dataclass(frozen=True)
class Prior:
    """What the samples say of α and β: the answer of one method, and of all that ran."""

    method: str
    seed: int
    n_labeled: int | None
    n_unlabeled: int | None
    answer: Estimate | None  # None where estimation failed
    auc_pu: float | None
    estimates: dict[str, Estimate]
    notices: tuple[Notice, ...]
    curves: dict[str, Curve]  # AlphaMax-N's, whatever the method: experts look for the elbow
    sample: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The object of PRIOR.json, its keys in the contract's order."""
        answer = _estimate_json(self.answer)
        return {
            "schema": SCHEMA,
            "punoise_version": __version__,
            "method": self.method,
            "seed": self.seed,
            "n_labeled": self.n_labeled,
            "n_unlabeled": self.n_unlabeled,
            **{key: answer[key] for key in ("alpha", "alpha_ci", "beta", "beta_ci")},
            "ci_level": CI_LEVEL,
            **{key: answer[key] for key in ("alpha_plus", "beta_plus")},
            "auc_pu": self.auc_pu,
            "auc": _corrected_auc(self.auc_pu, self.answer),
            "sample": self.sample,
            "warnings": [notice._asdict() for notice in self.notices],
            "estimates": [
                {"method": method, **_estimate_json(estimate)}
                for method, estimate in self.estimates.items()
            ],
            "curve": self._curve_json(),
        }

    def summary(self) -> list[str]:
        """The answer in a few lines of text; of several methods, a small table."""
        if self.answer is None or self.auc_pu is None:
            return ["alpha  not estimated", "beta   not estimated"]
        auc = _corrected_auc(self.auc_pu, self.answer)
        alpha = _shown(self.answer.alpha, self.answer.alpha_ci)
        beta = _shown(self.answer.beta, self.answer.beta_ci)
        lines = [
            f"alpha  {alpha}  of the unlabeled rows are positive",
            f"beta   {beta}  of the labeled rows are positive",
            f"AUC    {self.auc_pu:.3f} labeled against unlabeled"
            + ("" if auc is None else f", {auc:.3f} positives against negatives"),
            f"rows   {self.n_labeled} labeled, {self.n_unlabeled} unlabeled",
        ]
        if len(self.estimates) > 1:
            lines += [f"{'method':<14}{'alpha':<26}beta"]
            lines += [
                f"{name:<14}{_shown(e.alpha, e.alpha_ci):<26}{_shown(e.beta, e.beta_ci)}"
                for name, e in self.estimates.items()
            ]
        return lines

    def _curve_json(self) -> dict[str, Any] | None:
        if not self.curves:
            return None
        return {
            name: {
                "proportion": [float(x) for x in curve.proportion],
                "log_likelihood": [float(x) for x in curve.log_likelihood],
            }
            for name, curve in self.curves.items()
        }


def _shown(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")


def _estimate_json(estimate: Estimate | None) -> dict[str, Any]:
    keys = ("alpha", "alpha_ci", "beta", "beta_ci", "alpha_plus", "beta_plus", "converged")
    return {
        key: list(value) if isinstance(value := getattr(estimate, key, None), tuple) else value
        for key in keys
    }


def _corrected_auc(auc_pu: float | None, estimate: Estimate | None) -> float | None:
    """The AUC of positives against negatives, from that of labeled against unlabeled rows."""
    if auc_pu is None or estimate is None or estimate.beta <= estimate.alpha:
        return None
    return float(np.clip(0.5 + (auc_pu - 0.5) / (estimate.beta - estimate.alpha), 0, 1))


def estimate_prior(
    sketch: Sketch,
    method: str,
    settings: Settings,
    samples: Samples | None = None,
    sample: str | None = None,
) -> Prior:
    """Run one method, or all of them, on the scores and where given on the feature tables."""
    estimates = {
        estimator.name: _with_intervals(estimator, sketch, samples, settings)
        for estimator in _chosen(method, samples)
    }
    answering = DEFAULT_METHOD if method == "all" else method
    answer = estimates[answering]
    if not np.isfinite([answer.alpha, answer.beta]).all():
        raise EstimationError(f"{answering} found no estimate")
    return Prior(
        method=answering,
        seed=settings.seed,
        n_labeled=sketch.n_labeled,
        n_unlabeled=sketch.n_unlabeled,
        answer=answer,
        auc_pu=sketch.auc,
        estimates=estimates,
        notices=(*diagnose(sketch, answer), *answer.notices),
        curves=(
            estimates.get(CURVE_METHOD) or ESTIMATORS[CURVE_METHOD].estimate(sketch, settings)
        ).curves,
        sample=sample,
    )


def failed_prior(method: str, seed: int, error: Exception, sample: str | None) -> Prior:
    """The prior that is written where estimation or its input fails and a file is wanted."""
    code = "bad-input" if isinstance(error, InputError) else "estimation-failed"
    answering = DEFAULT_METHOD if method == "all" else method
    notices = (Notice(code, str(error)),)
    return Prior(answering, seed, None, None, None, None, {}, notices, {}, sample)


def _chosen(method: str, samples: Samples | None) -> Sequence[Estimator]:
    if method == "all":
        return [e for e in ESTIMATORS.values() if e.needs == "scores" or samples is not None]
    estimator = ESTIMATORS[method]
    if estimator.needs == "features" and samples is None:
        raise UsageError(f"--method {method} needs the feature tables: --labeled and --unlabeled")
    return [estimator]


def _with_intervals(
    estimator: Estimator, sketch: Sketch, samples: Samples | None, settings: Settings
) -> Estimate:
    """The estimate, with percentile intervals over bootstrap samples where it has none itself."""
    data = sketch if estimator.needs == "scores" else samples
    estimate = estimator.estimate(data, settings)
    if estimator.needs == "features" or estimate.alpha_ci is not None:
        return estimate
    rng = np.random.default_rng([settings.seed, 1])
    replicates = [estimator.estimate(sketch.resample(rng), settings) for _ in range(REPLICATES)]
    tail = (1 - CI_LEVEL) / 2

    def interval(values: list[float], center: float) -> tuple[float, float]:
        low, high = np.quantile(values, [tail, 1 - tail])
        return min(float(low), center), max(float(high), center)

    return replace(
        estimate,
        alpha_ci=interval([r.alpha for r in replicates], estimate.alpha),
        beta_ci=interval([r.beta for r in replicates], estimate.beta),
    )


def diagnose(sketch: Sketch, estimate: Estimate) -> list[Notice]:
    """What about the scores and the estimate should make a reader careful."""
    n_labeled, n_unlabeled, auc = sketch.n_labeled, sketch.n_unlabeled, sketch.auc
    alpha, beta = estimate.alpha, estimate.beta
    total = sketch.labeled + sketch.unlabeled
    share = total / total.sum()
    tied = float(share[share >= 0.01].sum())
    # the standard error of the AUC where the two samples do not differ
    spread = np.sqrt((n_labeled + n_unlabeled + 1) / (12 * n_labeled * n_unlabeled))
    low, high = estimate.alpha_ci or (alpha, alpha)
    checks = [
        (
            min(n_labeled, n_unlabeled) < 100,
            "few-rows",
            f"{n_labeled} labeled and {n_unlabeled} unlabeled rows do not say much",
        ),
        (
            abs(auc - 0.5) < 3 * spread,
            "indistinguishable",
            f"labeled and unlabeled scores hardly differ (AUC {auc:.3f}): "
            "alpha is not identifiable",
        ),
        (
            auc < 0.5 - 3 * spread,
            "reversed-scores",
            f"labeled rows score lower than unlabeled ones (AUC {auc:.3f}); if low scores mean "
            "positive, turn them round, as --score-column with --lower-is-positive does",
        ),
        (
            auc > 1 - 1e-3,
            "separable",
            f"the scores tell labeled from unlabeled rows almost perfectly (AUC {auc:.4f}): "
            "either hardly any unlabeled row is positive or a column gives the label away",
        ),
        (
            tied > 0.5,
            "tied-scores",
            f"{tied:.0%} of the rows share their score with at least 1 % of all rows",
        ),
        (alpha < 0.01, "alpha-near-zero", f"alpha {alpha:.4f} is near 0: hardly any positives"),
        (alpha > 0.99, "alpha-near-one", f"alpha {alpha:.4f} is near 1: hardly any negatives"),
        (
            beta - alpha < 0.05,
            "beta-not-above-alpha",
            f"beta {beta:.3f} is hardly above alpha {alpha:.3f}: "
            "the labeled rows are not richer in positives than the unlabeled ones",
        ),
        (
            auc - 3 * spread > (1 + beta - alpha) / 2,
            "refuted-by-auc",
            f"alpha {alpha:.3f} and beta {beta:.3f} allow an AUC of labeled against unlabeled rows "
            f"of at most {(1 + beta - alpha) / 2:.3f}, and it is {auc:.3f}",
        ),
        (
            estimate.alpha_ci is not None and low < high and alpha in (low, high),
            "estimate-at-interval-edge",
            f"alpha {alpha:.4f} lies on the edge of its interval [{low:.4f}, {high:.4f}]",
        ),
    ]
    return [Notice(code, message) for applies, code, message in checks if applies]


def _pair(value: Any) -> tuple[float, float] | None:
    return None if value is None else (float(value[0]), float(value[1]))


def prior_shares(name: str, value: Any) -> PriorShares:
    """α and β of a PRIOR.json, with their intervals."""
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise InputError(f"{name}: not a {SCHEMA} document")
    alpha, beta = value.get("alpha"), value.get("beta")
    if alpha is None or beta is None:
        warnings = value.get("warnings")
        reasons = [w.get("message") for w in warnings or [] if isinstance(w, dict)]
        raise EstimationError(f"{name}: holds no estimate: {(reasons or ['no reason given'])[0]}")
    try:
        shares = PriorShares(
            float(alpha),
            float(beta),
            _pair(value["alpha_ci"]),
            _pair(value["beta_ci"]),
            source=ScoresSeen(
                int(value["n_labeled"]), int(value["n_unlabeled"]), float(value["auc_pu"])
            ),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{name}: alpha, beta or their intervals are not numbers") from error
    if not (0 <= shares.alpha <= 1 and 0 <= shares.beta <= 1):
        raise InputError(f"{name}: alpha and beta are not shares between 0 and 1")
    return shares
