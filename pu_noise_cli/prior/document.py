"""Values of JSON documents that may come from anywhere: what each must be, else a ValueError.

PRIOR.json: the estimates of α and β with their intervals, and what to be wary of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import __version__
from ..errors import EstimationError, InputError, UsageError
from ..notices import Notice
from ..numerics import FloatArray
from ..score.sketch import Sketch
from ..tables.files import read_json
from ..tables.rows import LabeledClass
from .base import Curve, Estimate, Interval, Shares

T = TypeVar("T")


def optional(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value.encode("utf-8", "backslashreplace").decode()  # JSON may hold half a character


def finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


def share(value: Any) -> float:
    if not 0 <= finite(value) <= 1:
        raise ValueError(f"{value!r} is not a share between 0 and 1")
    return float(value)


def count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return value


def interval(value: Any) -> tuple[float, float]:
    low, high = value
    if share(low) > share(high):
        raise ValueError(f"the interval {value!r} ends before it begins")
    return float(low), float(high)


def numbers(value: Any, of: Callable[[Any], float] = finite) -> FloatArray:
    return np.array([of(item) for item in value], np.float64)


SCHEMA = "punoise.prior/1"
CI_LEVEL = 0.95
LABELED_ARE = ("positives", "negatives")  # what the labels say
STATED = "stated"  # in place of a method, where α and β are the user's own
DRAWN = 100  # pairs, of a document that holds none
VERIFIED, CLEAN = 100, 0.9  # rows checked by hand and a β, for what would narrow the interval
MISCALIBRATED = 0.01  # verdicts less likely than that contradict the posteriors
MOST_METHODS = 50  # far more than there are: a document from elsewhere must not fill a page
LITTLE = 0.005  # a share below which a lower end, or an assumption, is as good as none...
FAR_BELOW = 0.1  # ... but a lower end only where it is below this part of the upper one


def decimals(share: float, digits: int) -> str:
    """A share as the console writes it."""
    return f"{share:.{digits}f}"


class Wording(NamedTuple):
    """What sentences call α and β, and how they write a share to so many digits."""

    alpha: str
    beta: str
    shown: Callable[[float, int], str]


CONSOLE = Wording("alpha", "beta", decimals)


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
    alpha_max: float | None = None  # one-sided 95 % limits that assume nothing of the overlap
    beta_min: float | None = None
    sample: str | None = None
    n_verdicts: int | None = None  # of verified rows
    n_negatives: int | None = None  # of known negatives
    audit: dict[str, Any] | None = None  # what was verified, by stratum
    labeled_negatives: bool = False  # the labeled rows are negatives, and β their share of these
    alpha_min: float | None = None  # in place of alpha_max, where they are
    version: str = __version__

    @classmethod
    def stated(cls, alpha: float, beta: float, labeled_negatives: bool = False) -> Prior:
        """What a user states instead of estimating it: certain, and of no rows in particular."""
        answer = Estimate(alpha, beta)
        negatives = labeled_negatives
        return cls(STATED, 0, None, None, answer, None, {}, (), {}, labeled_negatives=negatives)

    def turned(self) -> Prior:
        """What was found for the class of the labeled rows, which are negatives, turned round."""
        return replace(
            self,
            answer=None if self.answer is None else self.answer.turned(),
            estimates={method: found.turned() for method, found in self.estimates.items()},
            labeled_negatives=True,
            alpha_max=None,
            alpha_min=None if self.alpha_max is None else 1 - self.alpha_max,
        )

    @property
    def auc(self) -> float | None:
        """The AUC of positives against negatives, as far as α and β tell it."""
        if self.answer is None or self.auc_pu is None:
            return None
        alpha = 1 - self.answer.alpha if self.labeled_negatives else self.answer.alpha
        excess = self.answer.beta - alpha
        return float(np.clip(0.5 + (self.auc_pu - 0.5) / excess, 0, 1)) if excess > 0 else None

    @property
    def labeled_class(self) -> LabeledClass:
        """What the labels say of a row."""
        return "negative" if self.labeled_negatives else "positive"

    @property
    def reason(self) -> str:
        """Why there is no estimate, where there is none."""
        return self.notices[0].message if self.notices else "no reason given"

    def name(self, file: str) -> str:
        """The sample's name, else that of the file: results/liver/prior.json is 'liver'."""
        path = PurePath(file)
        stem = path.name.split(".json")[0]
        return self.sample or (path.parent.name if stem == "prior" else "") or stem

    def _has_auc(self, auc: float) -> bool:
        return self.auc_pu is not None and abs(self.auc_pu - auc) < 1e-9

    def to_json(self) -> dict[str, Any]:
        """The object of PRIOR.json, its keys in the contract's order."""
        answer = _estimate_to_json(self.answer)
        draws = None if self.answer is None else self.answer.draws
        return {
            "schema": SCHEMA,
            "punoise_version": self.version,
            "method": self.method,
            "seed": self.seed,
            "labeled_are": LABELED_ARE[self.labeled_negatives],
            "n_labeled": self.n_labeled,
            "n_unlabeled": self.n_unlabeled,
            "n_negatives": self.n_negatives,
            "n_verdicts": self.n_verdicts,
            **{key: answer[key] for key in ("alpha", "alpha_ci", "beta", "beta_ci")},
            "ci_level": CI_LEVEL,
            **{key: answer[key] for key in ("alpha_plus", "beta_plus")},
            "alpha_max": self.alpha_max,
            "alpha_min": self.alpha_min,
            "beta_min": self.beta_min,
            "alpha_ci_sampling": answer["alpha_ci_sampling"],
            "assumed": None if self.answer is None else self.answer.assumed,
            "audit": self.audit,
            "auc_pu": self.auc_pu,
            "auc": self.auc,
            "sample": self.sample,
            "warnings": [asdict(notice) for notice in self.notices],
            "estimates": [
                {"method": method, **_estimate_to_json(estimate)}
                for method, estimate in self.estimates.items()
            ],
            "draws": None if draws is None else [list(pair) for pair in draws],
            "curve": {
                name: {
                    "proportion": curve.proportion.tolist(),
                    "log_likelihood": curve.log_likelihood.tolist(),
                }
                for name, curve in self.curves.items()
            }
            or None,
        }

    @classmethod
    def from_json(cls, name: str, value: Any) -> Prior:
        """The prior of a document, checked whole; an input error names the file."""
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise InputError(f"{name}: not a {SCHEMA} document")
        try:
            return cls._checked(value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)[:200]
            raise InputError(f"{name}: not a whole {SCHEMA} document ({reason})") from None

    @classmethod
    def _checked(cls, value: dict[str, Any]) -> Prior:
        estimates = {
            text(entry["method"]): _estimate_of_json(entry)
            for entry in value["estimates"][:MOST_METHODS]
        }
        answer = _estimate_of_json(value)
        optional(share, value["auc"])  # follows from the others
        if answer is not None:
            for key in ("n_labeled", "n_unlabeled", "auc_pu"):
                if value[key] is None and value["method"] != STATED:
                    raise ValueError(f"an estimate without {key}")
            draws, assumed = optional(_draws, value.get("draws")), value.get("assumed")
            answer = replace(answer, draws=draws, assumed=optional(_assumptions, assumed))
        return cls(
            method=text(value["method"]),
            seed=count(value["seed"]),
            n_labeled=optional(count, value["n_labeled"]),
            n_unlabeled=optional(count, value["n_unlabeled"]),
            answer=answer,
            auc_pu=optional(share, value["auc_pu"]),
            estimates={method: found for method, found in estimates.items() if found is not None},
            notices=notices_of_json(value["warnings"]),
            curves={
                text(key): _curve(curve["proportion"], curve["log_likelihood"])
                for key, curve in (value["curve"] or {}).items()
            },
            alpha_max=optional(share, value.get("alpha_max")),
            beta_min=optional(share, value.get("beta_min")),
            sample=optional(text, value["sample"]),
            n_verdicts=optional(count, value.get("n_verdicts")),
            n_negatives=optional(count, value.get("n_negatives")),
            audit=optional(_audit, value.get("audit")),
            labeled_negatives=bool(LABELED_ARE.index(value.get("labeled_are", LABELED_ARE[0]))),
            alpha_min=optional(share, value.get("alpha_min")),
            version=text(value["punoise_version"]),
        )

    def noting(self, remark: str) -> Prior:
        """The same, whose reason for having no estimate is followed by a remark."""
        first, *others = self.notices
        return replace(self, notices=(Notice(first.code, f"{first.message}; {remark}"), *others))

    def certainty(self, words: Wording = CONSOLE) -> dict[str, str]:
        """What is certain, what the intervals assume and what would narrow them, a line each."""
        alpha, beta, shown = words
        lines = {}
        bound, lowest = self.alpha_max, self.beta_min
        side, telling = "most", bound is not None and bound < 1
        if self.labeled_negatives:
            bound, side = self.alpha_min, "least"
            telling = bound is not None and bound > 0
        if bound is not None and lowest is not None and (telling or lowest > 0):
            lines["sure"] = (
                f"{alpha} is at {side} {shown(bound, 3)} and {beta} at least "
                f"{shown(lowest, 3)}, however the classes overlap"
            )
        if self.audit is not None:
            lines["seen"] = _seen(self.audit)
        if self.answer is None or self.answer.assumed is None:
            return lines
        if given := self._given(words):
            lines["given"] = given
        advice = []
        clean = [draw for draw, of_labeled in self.answer.draws or () if of_labeled >= CLEAN]
        if DRAWN / 5 < len(clean) < len(self.answer.draws or ()):
            low, high = (float(end) for end in np.quantile(clean, [0.025, 0.975]))
            advice.append(
                f"if {beta} is at least {shown(CLEAN, 1)}, {alpha} is in "
                f"[{_low((low, high), shown)}, {shown(high, 4)}]"
            )
        error = 1.96 * math.sqrt(self.answer.alpha * (1 - self.answer.alpha) / VERIFIED)
        low, high = self.answer.alpha_ci or (0.0, 1.0)
        if 2 * error < high - low:
            checked = f"{VERIFIED} unlabeled rows checked at random"
            advice.append(f"{checked} would give {alpha} ± {shown(error, 2)}")
        return {**lines, "next": "; ".join(advice)} if advice else lines

    def _given(self, words: Wording) -> str:
        """What the intervals assume beyond the prior, in words; empty where that is nothing."""
        if self.answer is None or self.answer.assumed is None or not self.answer.draws:
            return ""
        if self.contradicted:
            return "with care, as the scores contradict what was to be assumed (see the warning)"
        assumed, shown = self.answer.assumed, words.shown
        stated = {
            words.alpha: assumed.get("alpha_between"),
            words.beta: assumed.get("beta_between"),
        }
        clauses = [
            f"{name} is between {shown(between[0], 3)} and {shown(between[1], 3)}"
            for name, between in stated.items()
            if between is not None
        ]
        if (purity := assumed["purity"]) >= LITTLE:
            best = "lowest-scoring" if self.labeled_negatives else "best"
            clauses.append(
                f"at least {100 * purity:.0f} % of the unlabeled rows that score like the "
                f"{best} labeled ones are {self.labeled_class} (--purity)"
            )
        return f"that {', and that '.join(clauses)}" if clauses else ""

    @property
    def contradicted(self) -> bool:
        """Whether the scores all but rule out something that was to be assumed."""
        return any(notice.code == "assumption-contradicted" for notice in self.notices)

    def summary(self) -> list[str]:
        """The answer in a few lines of text; of several methods, a small table."""
        if self.answer is None:
            return ["alpha  not estimated", "beta   not estimated"]
        alpha = shown_share(self.answer.alpha, self.answer.alpha_ci)
        beta = shown_share(self.answer.beta, self.answer.beta_ci)
        of = "rows of the population" if self.n_unlabeled == 0 else "unlabeled rows"
        lines = [
            f"alpha  {alpha}  of the {of} are positive",
            f"beta   {beta}  of the labeled rows are {self.labeled_class}",
            *(f"{name:<7}{text}" for name, text in self.certainty().items()),
        ]
        if self.auc_pu is not None:
            corrected = "" if self.auc is None else f", {self.auc:.3f} positives against negatives"
            lines.append(f"AUC    {self.auc_pu:.3f} labeled against unlabeled{corrected}")
        more = f", {self.n_negatives} known negatives" if self.n_negatives else ""
        lines.append(f"rows   {self.n_labeled} labeled, {self.n_unlabeled} unlabeled{more}")
        if len(self.estimates) > 1:
            lines += [f"{'method':<14}{'alpha':<26}beta"]
            lines += [
                f"{name:<14}{shown_share(e.alpha, e.alpha_ci):<26}{shown_share(e.beta, e.beta_ci)}"
                for name, e in self.estimates.items()
            ]
        return lines


def _listed(sizes: tuple[int | None, int | None, int]) -> str:
    labeled, unlabeled, negatives = sizes
    more = f" and {negatives} negative" if negatives else ""
    return f"{labeled} labeled and {unlabeled} unlabeled{more}"


def _seen(audit: dict[str, Any]) -> str:
    """What the verified rows say of the posteriors."""
    found = []
    for name in ("unlabeled", "labeled"):
        mine = [stratum for stratum in audit["strata"] if stratum["set"] == name]
        if verdicts := sum(stratum["verdicts"] for stratum in mine):
            positive, expected = (sum(s[key] for s in mine) for key in ("positive", "expected"))
            found.append(f"{positive} of {verdicts} {name} rows ({expected:.1f} expected)")
    said = "agree with" if audit["calibration_p"] >= MISCALIBRATED else "contradict"
    return f"positive are {' and '.join(found)} that were verified, which {said} the posteriors"


def shown_share(value: float, interval: Interval | None) -> str:
    """A share with its interval, to four decimals."""
    return f"{value:.4f}" + (f" [{_low(interval)}, {interval[1]:.4f}]" if interval else "")


def lower_end(interval: Interval) -> float:
    """The lower end of an interval as it is shown: very little is nothing, unless all is little."""
    low, high = interval
    return low if low >= min(LITTLE, FAR_BELOW * high) else 0.0


def _low(interval: Interval, shown: Callable[[float, int], str] = decimals) -> str:
    low = lower_end(interval)
    return shown(low, 4) if low else "0"


# ---- To and from JSON


def read_prior(name: str) -> Prior:
    """The prior in a file, which must hold an estimate."""
    prior = Prior.from_json(name, read_json(name))
    if prior.answer is None:
        raise EstimationError(f"{name}: holds no estimate: {prior.reason}")
    return prior


def _estimate_to_json(estimate: Estimate | None) -> dict[str, Any]:
    keys = (
        *("alpha", "alpha_ci", "alpha_ci_sampling", "beta", "beta_ci"),
        *("alpha_plus", "beta_plus", "converged"),
    )
    return {
        key: list(value) if isinstance(value := getattr(estimate, key, None), tuple) else value
        for key in keys
    }


def _estimate_of_json(value: dict[str, Any]) -> Estimate | None:
    """The estimate of an entry; none where it has neither α nor β."""
    shares = ("alpha", "beta", "alpha_plus", "beta_plus")
    alpha, beta, alpha_plus, beta_plus = (optional(share, value[key]) for key in shares)
    alpha_ci, beta_ci = (optional(interval, value[f"{key}_ci"]) for key in ("alpha", "beta"))
    if alpha is None or beta is None:
        if (alpha, beta) != (None, None):
            raise ValueError("alpha and beta are both there, or neither")
        return None
    converged = optional(bool, value.get("converged"))
    return Estimate(
        alpha,
        beta,
        alpha_plus,
        beta_plus,
        alpha_ci,
        beta_ci,
        converged=converged,
        alpha_ci_sampling=optional(interval, value.get("alpha_ci_sampling")),
    )


def _draws(value: Any) -> tuple[tuple[float, float], ...]:
    return tuple((share(alpha), share(beta)) for alpha, beta in value)


def _assumptions(value: Any) -> dict[str, Any]:
    """What was assumed, in words and numbers, of which these are shown."""
    text(value["words"])
    share(value["purity"])
    for between in ("alpha_between", "beta_between"):
        optional(interval, value.get(between))
    for purity, low, high in value["sensitivity"]:
        share(purity)
        interval((low, high))
    return dict(value)


def _audit(value: Any) -> dict[str, Any]:
    """What was verified, of which these are shown."""
    share(value["calibration_p"])
    for stratum in value["strata"]:
        text(stratum["set"])
        for key in ("stratum", "rows", "verdicts", "positive"):
            count(stratum[key])
        finite(stratum["expected"])
    return dict(value)


def _curve(proportion: Any, log_likelihood: Any) -> Curve:
    if len(proportion) != len(log_likelihood):
        raise ValueError("the two lists of a curve differ in length")
    return Curve(numbers(proportion, share), numbers(log_likelihood))


def notices_of_json(value: Any) -> tuple[Notice, ...]:
    """The warnings of a document."""
    return tuple(Notice(text(entry["code"]), text(entry["message"])) for entry in value)


def shares_for(prior: Prior, sketch: Sketch) -> tuple[Sketch, Shares, tuple[Notice, ...]]:
    """Match an estimated or stated prior to scores.

    Returns
    -------
    sketch
        The scores, with the labeled class of the prior.
    shares
        α and β for their rows.
    notices
        A warning if the prior was estimated from other rows.
    """
    assert prior.answer is not None
    if sketch.labeled_class == "negative" and not prior.labeled_negatives:
        raise UsageError(
            "the prior takes labeled rows for positives, and the scores say that theirs are "
            "negatives: estimate it from them, or with --alpha say --labeled-are negatives"
        )
    if sketch.labeled_class != prior.labeled_class:
        sketch = replace(sketch, labeled_class=prior.labeled_class)
    pairs = [(prior.answer.alpha, prior.answer.beta)]
    if prior.method != STATED:
        pairs += prior.answer.draws or _drawn_from_intervals(prior.answer, prior.seed)
    if prior.labeled_negatives:
        pairs = [(alpha, 1 - beta) for alpha, beta in pairs]
    shares = Shares(*pairs[0], draws=tuple(pairs[1:]))
    if prior.method == STATED:
        return sketch, replace(shares, from_these_rows=False), ()
    theirs = (prior.n_labeled, prior.n_unlabeled, prior.n_negatives or 0)
    these = (sketch.n_labeled, sketch.n_unlabeled, sketch.n_negative)
    auc = sketch.auc if sketch.n_unlabeled else np.nan
    auc = 1 - auc if prior.labeled_negatives else auc
    if theirs == these and prior._has_auc(auc):
        return sketch, shares, ()
    message = (
        f"the prior was estimated from {_listed(theirs)} scores with an AUC of "
        f"{prior.auc_pu or 0:.4f}, these are {_listed(these)} with an AUC of {auc:.4f}"
    )
    notice = Notice("prior-of-other-rows", message)
    return sketch, replace(shares, from_these_rows=False), (notice,)


def _drawn_from_intervals(answer: Estimate, seed: int) -> tuple[tuple[float, float], ...]:
    """Pairs as uncertain as the intervals say, for documents that hold no draws."""
    rng = np.random.default_rng([seed, 3])

    def drawn(value: float, interval: Interval | None) -> FloatArray:
        z = rng.normal(size=DRAWN) / 1.96
        low, high = interval or (value, value)
        return np.clip(value + z * np.where(z > 0, high - value, value - low), 0, 1)

    if answer.alpha_ci is None and answer.beta_ci is None:
        return ()
    alphas, betas = drawn(answer.alpha, answer.alpha_ci), drawn(answer.beta, answer.beta_ci)
    return tuple(zip(alphas.tolist(), betas.tolist(), strict=True))
