"""PRIOR.json: its one definition, what follows from it, and the prior in words."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct

from .. import __version__
from ..errors import EstimationError, UsageError, option
from ..notices import Notice
from ..score.sketch import Sketch
from ..tables.files import Count, Fraction, parse_document, read_json
from ..tables.rows import LabeledClass
from .base import Assumptions, Ends, Interval, Shares, check_intervals

SCHEMA: Literal["punoise.prior/1"] = "punoise.prior/1"
CI_LEVEL = 0.95
STATED = "stated"  # the method of a prior whose α and β are the user's own
MISCALIBRATED = 0.01  # verdicts less probable than this contradict the posteriors
DRAWS = 100  # pairs of α and β drawn from the intervals of a document without draws
ALIKE = "indistinguishable"  # the warning of labeled and unlabeled rows that score alike
MAX_METHODS = 50  # far more than exist: a document from elsewhere must not fill a page

Factor = Annotated[float, Meta(ge=1, le=1e300)]
# unlabeled rows at the top score like the top fifth of the labeled rows
Part = Literal["unlabeled", "labeled", "top"]


class Stratum(Struct, frozen=True, kw_only=True):
    """The verdicts on the rows of one stratum."""

    set: Part
    stratum: Annotated[int, Meta(ge=1, le=2**31)]
    rows: Count
    verdicts: Count
    positive: Count
    expected: Annotated[float, Meta(ge=0, le=1e300)]  # positives, from the posteriors


class AuditResult(Struct, frozen=True, kw_only=True):
    """What verified rows say of the posteriors."""

    calibration_p: Fraction  # the probability of verdicts this far from correct posteriors
    strata: tuple[Stratum, ...]


class MethodEstimate(Struct, frozen=True, kw_only=True):
    """What one method estimates; `converged` is null for methods that do not iterate."""

    method: str
    alpha: Fraction
    alpha_ci: Ends | None = None
    alpha_ci_sampling: Ends | None = None
    beta: Fraction
    beta_ci: Ends | None = None
    alpha_plus: Fraction | None = None
    beta_plus: Fraction | None = None
    converged: bool | None = None

    def __post_init__(self) -> None:
        check_intervals(self, "alpha_ci", "alpha_ci_sampling", "beta_ci")


class ProfileCurve(Struct, frozen=True, kw_only=True):
    """A log-likelihood by mixing proportion."""

    proportion: tuple[Fraction, ...]
    log_likelihood: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.proportion) != len(self.log_likelihood):
            raise ValueError("the two lists of a curve differ in length")


class Prior(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"version": "punoise_version", "notices": "warnings", "curves": "curve"},
):
    """What punoise estimates of alpha and beta from labeled and unlabeled rows.

    Attributes
    ----------
    schema
        the format
    version
        the version of punoise that wrote it
    method
        the method that gave alpha and beta; `stated` if they are the user's own
    seed
        the seed of all random numbers
    labeled_are
        what the labels say; alpha is the fraction of positives either way
    n_labeled
        labeled rows; null if the input failed
    n_unlabeled
        unlabeled rows; null if the input failed
    n_negatives
        known negatives; null if there are none
    n_overlap
        rows of the unlabeled table that are labeled, too, and do not count as unlabeled; null if
        there are none
    n_verdicts
        rows verified by hand; null without an audit
    alpha
        fraction of positives among the unlabeled rows; null if not estimated
    alpha_ci
        the 95% interval of alpha
    beta
        fraction of the labels that are correct; null if not estimated
    beta_ci
        the 95% interval of beta
    ci_level
        the level of the intervals
    alpha_plus
        largest fraction of the labeled distribution within the unlabeled one
    beta_plus
        largest fraction of the unlabeled distribution within the labeled one
    alpha_max
        upper 95% limit of alpha that holds however much the classes overlap, if labeled positives
        are representative; null for `subclasses`, and where it would exclude part of alpha_ci
    alpha_max_by_selection
        pairs of a factor and the upper 95% limit of alpha if the rate at which positives are
        labeled differs from its mean by at most that factor, as far as they include alpha_ci; null
        if the labeled rows are negatives, and if verified rows give alpha
    alpha_min
        lower limit of alpha instead, if the labeled rows are negatives
    beta_min
        lower 95% limit of beta, as alpha_max; null where it would exclude part of beta_ci, and if
        beta is known
    representative
        whether labeled rows are representative of their class: `assumed`, or `checked` or
        `contradicted` by verified rows; null where alpha does not depend on it
    alpha_ci_sampling
        what alpha_ci would be if the overlap of the classes were known
    assumed
        what `auto` assumed beforehand, in words and numbers, and the interval of alpha at other
        purities (`sensitivity`); null for methods that assume nothing
    audit
        rows verified by hand (`punoise audit`): for each stratum its rows, verdicts, positives and
        the positives expected from the posteriors, and how likely such verdicts are if the
        posteriors are right; `set` is `top` for unlabeled rows that score like the best labeled
        ones
    auc_pu
        AUC of labeled against unlabeled rows
    auc
        AUC of positives against negatives, corrected with alpha and beta
    sample
        the name of the sample
    notices
        warnings of all steps: `code` and `message`
    estimates
        an entry for each method that ran
    draws
        equally likely pairs of alpha and beta, which carry their joint uncertainty into posteriors,
        bounds and performance
    curves
        AlphaMax's log-likelihood by mixing proportion, in both directions
    shifted_from
        if alpha is that of new rows, which a trained model scored: the prior of the training rows;
        beta and n_labeled are of their labels
    """

    schema: Literal["punoise.prior/1"] = SCHEMA
    version: str = __version__
    method: str
    seed: Count
    labeled_are: Literal["positives", "negatives"] = "positives"
    n_labeled: Count | None = None
    n_unlabeled: Count | None = None
    n_negatives: Count | None = None
    n_overlap: Count | None = None
    n_verdicts: Count | None = None
    alpha: Fraction | None
    alpha_ci: Ends | None = None
    beta: Fraction | None
    beta_ci: Ends | None = None
    ci_level: Annotated[float, Meta(ge=CI_LEVEL, le=CI_LEVEL)] = CI_LEVEL
    alpha_plus: Fraction | None = None
    beta_plus: Fraction | None = None
    alpha_max: Fraction | None = None
    alpha_max_by_selection: tuple[tuple[Factor, Fraction], ...] | None = None
    alpha_min: Fraction | None = None
    beta_min: Fraction | None = None
    representative: Literal["assumed", "checked", "contradicted"] | None = None
    alpha_ci_sampling: Ends | None = None
    assumed: Assumptions | None = None
    audit: AuditResult | None = None
    auc_pu: Fraction | None = None
    auc: Fraction | None = None
    sample: str | None = None
    notices: tuple[Notice, ...] = ()
    estimates: Annotated[tuple[MethodEstimate, ...], Meta(max_length=MAX_METHODS)] = ()
    draws: tuple[Ends, ...] | None = None
    curves: dict[str, ProfileCurve] | None = None
    shifted_from: Prior | None = None

    def __post_init__(self) -> None:
        check_intervals(self, "alpha_ci", "alpha_ci_sampling", "beta_ci")
        if (self.alpha is None) != (self.beta is None):
            raise ValueError("alpha and beta must both be there or both be null")
        if self.alpha is not None and self.method != STATED:
            for key in ("n_labeled", "n_unlabeled", "auc_pu"):
                if getattr(self, key) is None:
                    raise ValueError(f"an estimate without {key}")

    @property
    def labeled_class(self) -> LabeledClass:
        """The class of the labeled rows, as far as the labels are right."""
        return "negative" if self.labeled_are == "negatives" else "positive"

    @property
    def estimated(self) -> tuple[float, float]:
        """α and β of a prior that has them."""
        assert self.alpha is not None
        assert self.beta is not None
        return self.alpha, self.beta

    @property
    def reason(self) -> str:
        """Why there is no estimate."""
        reasons = [notice.message for notice in self.notices if notice.code == ALIKE]
        reasons += [notice.message for notice in self.notices]
        return reasons[0] if reasons else "no reason given"

    def sample_name(self, file: str) -> str:
        """The name of the sample, or else of the file: results/liver/prior.json is 'liver'."""
        path = PurePath(file)
        stem = path.name.split(".json")[0]
        return self.sample or (path.parent.name if stem == "prior" else "") or stem

    @property
    def selection_limit(self) -> float | None:
        """The upper limit of α if positives are labeled at rates up to twice their mean."""
        return dict(self.alpha_max_by_selection or ()).get(TWICE)

    def with_remark(self, remark: str) -> Prior:
        """A failed prior with a remark appended to its reason."""
        first, *others = self.notices
        notice = Notice(first.code, f"{first.message}; {remark}")
        return msgspec.structs.replace(self, notices=(notice, *others))

    def to_json(self) -> dict[str, Any]:
        """The JSON object of PRIOR.json, as a JSON parser returns it."""
        value: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(self)))
        return value


# ---- Reading, and what follows from the definition


def parse_prior(name: str, value: Any) -> Prior:
    """Check the JSON value of a file; an input error names the file and the place."""
    return parse_document(name, value, Prior)


def read_prior(name: str) -> Prior:
    """Read PRIOR.json, which must have an estimate."""
    prior = parse_prior(name, read_json(name))
    if prior.alpha is None:
        raise EstimationError(f"{name}: no estimate: {prior.reason}")
    return prior


def json_schema() -> dict[str, Any]:
    """The JSON Schema of PRIOR.json; punoise writes every key."""
    schema = msgspec.json.schema(Prior)
    for definition in schema["$defs"].values():
        definition["required"] = list(definition["properties"])
    prior = schema["$defs"]["Prior"]
    prior["description"] = inspect.cleandoc(Prior.__doc__ or "").split("\n")[0]
    for key, meaning in reference_rows():
        prior["properties"][key]["description"] = meaning
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema}


def reference_rows() -> list[tuple[str, str]]:
    """The keys of PRIOR.json with their meanings, from the docstring of Prior."""
    attributes = inspect.cleandoc(Prior.__doc__ or "").split("----------\n")[-1]
    meanings = re.findall(r"^(\w+)\n((?: {4}.*\n?)+)", attributes, re.MULTILINE)
    keys = {field.name: field.encode_name for field in msgspec.structs.fields(Prior)}
    return [(keys[name], " ".join(text.split())) for name, text in meanings]


# ---- α and β of scores


def stated(alpha: float, beta: float, labeled_class: LabeledClass = "positive") -> Prior:
    """A prior whose α and β the user states: certain, and not estimated from any rows."""
    labeled_are: Literal["positives", "negatives"] = f"{labeled_class}s"  # type: ignore[assignment]
    return Prior(method=STATED, seed=0, alpha=alpha, beta=beta, labeled_are=labeled_are)


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
    if prior.shifted_from is not None:
        raise UsageError(
            "this prior is of new rows: use that of the training rows, with "
            f"{option('target_alpha', prior.alpha)}"
        )
    if sketch.labeled_class == "negative" and prior.labeled_class == "positive":
        raise UsageError(
            "the prior takes labeled rows as positives, but in these scores they are negatives: "
            f"estimate the prior from them, or use {option('alpha')} with "
            f"{option('labeled_are', 'negatives')}"
        )
    if sketch.labeled_class != prior.labeled_class:
        sketch = replace(sketch, labeled_class=prior.labeled_class)
    pairs = [prior.estimated]
    if prior.method != STATED:
        pairs += prior.draws or _draw_from_intervals(prior)
    if prior.labeled_class == "negative":
        pairs = [(alpha, 1 - beta) for alpha, beta in pairs]
    shares = Shares(*pairs[0], draws=tuple(pairs[1:]))
    if prior.method == STATED:
        return sketch, replace(shares, from_these_rows=False), ()
    sizes = (prior.n_labeled, prior.n_unlabeled, prior.n_negatives or 0)
    sizes_here = (sketch.n_labeled, sketch.n_unlabeled, sketch.n_negative)
    auc = sketch.auc if sketch.n_unlabeled else np.nan
    auc = 1 - auc if prior.labeled_class == "negative" else auc
    if sizes == sizes_here and prior.auc_pu is not None and abs(prior.auc_pu - auc) < 1e-9:
        return sketch, shares, ()
    message = (
        f"this prior was estimated from other scores ({_list_sizes(sizes)}; AUC "
        f"{prior.auc_pu or 0:.4f}) than these ({_list_sizes(sizes_here)}; AUC {auc:.4f})"
    )
    notice = Notice("prior-of-other-rows", message)
    return sketch, replace(shares, from_these_rows=False), (notice,)


def _list_sizes(sizes: tuple[int | None, int | None, int]) -> str:
    labeled, unlabeled, negatives = sizes
    known = f", {negatives} known negatives" if negatives else ""
    return f"{labeled} labeled, {unlabeled} unlabeled{known}"


def _draw_from_intervals(prior: Prior) -> list[tuple[float, float]]:
    """Pairs of α and β that vary as the intervals say, for a document without draws."""
    if prior.alpha_ci is None and prior.beta_ci is None:
        return []
    rng = np.random.default_rng([prior.seed, 3])

    def draw(value: float, interval: Interval | None) -> list[float]:
        z = rng.normal(size=DRAWS) / 1.96
        low, high = interval or (value, value)
        return np.clip(value + z * np.where(z > 0, high - value, value - low), 0, 1).tolist()

    alpha, beta = prior.estimated
    return list(zip(draw(alpha, prior.alpha_ci), draw(beta, prior.beta_ci), strict=True))


# ---- In words, for the terminal and the report

CLEAN_BETA = 0.9  # a β to know beforehand, in the advice
MIN_DRAWS = 20  # with such a β, for an interval of α
NARROWER = 0.75  # of the width of an interval: what leaves more of it is not worth a step
ASKED_PURITY, ASKED_ROWS = 0.3, 20  # of the question on which answers often turn
RARE = 0.05  # a fraction of positives below which fields call them rare
TWICE = 2.0  # the factor between rates of labeling that a sentence is about
LITTLE = 0.0005  # a fraction below which a lower end, or an assumption, is as good as none...
FAR_BELOW = 0.1  # ... but a lower end only if it is below this part of the upper one


def percent(fraction: float) -> str:
    """A fraction for readers: 18.5%, with two decimals where it is nearly 0 or 1."""
    value = 100 * fraction
    edge = min(value, 100 - value)
    if 0 < edge < 0.005:
        return f"{value:.1g}%" if value < 50 else ">99.99%"
    decimals = 0 if edge == 0 else 2 if edge < 1 else 1
    return f"{value:.{decimals}f}%"


class Wording(NamedTuple):
    """How sentences name α and β, and show a fraction to a number of digits."""

    alpha: str
    beta: str
    show: Callable[[float, int], str] = lambda fraction, _: percent(fraction)


TERMINAL = Wording("alpha", "beta")


def summarize_prior(prior: Prior) -> list[str]:
    """The answer in a few lines of text; with several methods, also a small table."""
    if prior.alpha is None or prior.beta is None:
        return [f"alpha  {no_estimate(prior)}", "beta   not estimated"]
    rows = "unlabeled rows" if prior.n_unlabeled else "rows of the population"
    about_alpha = "stated" if prior.method == STATED else _about(prior.alpha, prior.n_unlabeled)
    about_beta = fixed_beta(prior) or _about(prior.beta, prior.n_labeled)
    lines = [
        f"alpha  {with_interval(prior.alpha, prior.alpha_ci)}  of the {rows} are positive "
        f"({about_alpha})",
        f"beta   {with_interval(prior.beta, prior.beta_ci)}  of the labels are correct "
        f"({about_beta})",
        *(f"{name:<7}{text}" for name, text in certainty(prior).items()),
    ]
    if prior.auc_pu is not None:
        auc = f"AUC    {prior.auc_pu:.3f} labeled vs. unlabeled rows"
        if prior.auc is not None:
            auc += f"; {prior.auc:.3f} positives vs. negatives (corrected)"
        lines.append(auc)
    negatives = f", {prior.n_negatives:,} known negatives" if prior.n_negatives else ""
    lines.append(f"rows   {prior.n_labeled:,} labeled, {prior.n_unlabeled:,} unlabeled{negatives}")
    if len(prior.estimates) > 1:
        lines.append(f"{'method':<14}{'alpha':<26}beta")
        lines += [
            f"{e.method:<14}{with_interval(e.alpha, e.alpha_ci):<26}"
            f"{with_interval(e.beta, e.beta_ci)}"
            for e in prior.estimates
        ]
    return lines


def no_estimate(prior: Prior) -> str:
    """Why there is no α."""
    alike = any(notice.code == ALIKE for notice in prior.notices)
    return "not identifiable: labeled and unlabeled rows score alike" if alike else "not estimated"


def fixed_beta(prior: Prior) -> str:
    """What a β rests on that nobody estimated; empty for others."""
    if prior.method == STATED:
        is_default = prior.beta == 1
        return f"assumed; set {option('beta')} if some are wrong" if is_default else "stated"
    is_fixed = prior.beta_ci is not None and prior.beta_ci[0] == prior.beta_ci[1]
    return "fixed" if is_fixed else ""


def _about(fraction: float, rows: int | None) -> str:
    return f"about {round(fraction * (rows or 0)):,}"


def certainty(prior: Prior, words: Wording = TERMINAL) -> dict[str, str]:
    """The limits, what they and the intervals assume, and how much that matters, a line each."""
    lines = {
        "limit": _limits(prior, words),
        "audit": "" if prior.audit is None else _verdicts(prior.audit, prior.labeled_class),
        "assume": _representative(prior, words),
        "bias": _selection(prior, words),
        "given": _assumptions(prior, words),
    }
    return {name: text for name, text in lines.items() if text}


def _limits(prior: Prior, words: Wording) -> str:
    """The limits of α and β that exclude something."""
    limits = [
        f"{name} {sign} {words.show(limit, 3)}"
        for name, sign, limit, trivial in (
            (words.alpha, "<=", prior.alpha_max, 1),
            (words.alpha, ">=", prior.alpha_min, 0),
            (words.beta, ">=", prior.beta_min, 0),
        )
        if limit is not None and limit != trivial
    ]
    if not limits:
        return ""
    return f"{' and '.join(limits)} (95% confidence), however much the classes overlap"


def _representative(prior: Prior, words: Wording) -> str:
    """The assumption behind limits and intervals that the data cannot confirm."""
    if prior.representative != "assumed":
        return ""
    off = "high" if prior.labeled_class == "negative" else "low"
    return (
        f"labeled {prior.labeled_class}s are representative of all {prior.labeled_class}s (the "
        f"data cannot show this; if not, {words.alpha} is too {off})"
    )


def _selection(prior: Prior, words: Wording) -> str:
    """How much the assumption matters."""
    if prior.selection_limit is None or prior.representative != "assumed":
        return ""
    return (
        "if kinds of positives were labeled at half to twice the average rate, "
        f"{words.alpha} can be up to {words.show(prior.selection_limit, 3)}"
    )


def _verdicts(audit: AuditResult, labeled_class: LabeledClass) -> str:
    """What the verified rows say of the posteriors."""
    counts = []
    top = "bottom unlabeled" if labeled_class == "negative" else "top unlabeled"
    for part, name in {"unlabeled": "unlabeled", "labeled": "labeled", "top": top}.items():
        strata = [stratum for stratum in audit.strata if stratum.set == part]
        if verdicts := sum(stratum.verdicts for stratum in strata):
            positive = sum(stratum.positive for stratum in strata)
            expected = sum(stratum.expected for stratum in strata)
            counts.append(
                f"{positive} of {verdicts} verified {name} rows ({expected:.1f} expected)"
            )
    agree = "consistent with" if audit.calibration_p >= MISCALIBRATED else "contradicting"
    return f"{' and '.join(counts)} are positive: {agree} the posteriors"


def _assumptions(prior: Prior, words: Wording) -> str:
    """What the intervals assume beyond the distribution of α and β; empty if nothing."""
    assumed = prior.assumed
    if assumed is None or not prior.draws:
        return ""
    if is_contradicted(prior):
        return (
            "an assumption that the scores contradict: do not use these numbers (see the warning)"
        )
    ranges = {words.alpha: assumed.alpha_between, words.beta: assumed.beta_between}
    clauses = [
        f"{name} is between {words.show(between[0], 3)} and {words.show(between[1], 3)}"
        for name, between in ranges.items()
        if between is not None
    ]
    if assumed.purity >= LITTLE:
        best = "lowest-scoring" if prior.labeled_class == "negative" else "best"
        clauses.append(
            f"at least {100 * assumed.purity:.0f}% of the unlabeled rows that score like the "
            f"{best} labeled ones are {prior.labeled_class} ({option('purity')})"
        )
    return f"that {', and that '.join(clauses)}" if clauses else ""


def is_contradicted(prior: Prior) -> bool:
    """Whether the scores all but rule out an assumption."""
    return any(notice.code == "assumption-contradicted" for notice in prior.notices)


def advice(
    prior: Prior, verdicts: int, width: float, command: str, words: Wording = TERMINAL
) -> list[str]:
    """The steps that would narrow the interval of α by a quarter or more, and how to take them.

    Parameters
    ----------
    verdicts, width
        The expected width of the interval after so many rows are verified.
    command
        What draws the rows to verify.
    """
    if prior.alpha_ci is None or prior.assumed is None:
        return []
    worthwhile = NARROWER * (prior.alpha_ci[1] - prior.alpha_ci[0])
    steps = _purity_steps(prior, worthwhile, command, words)
    if width <= worthwhile:
        points = f"{50 * width:.0f}" if width >= 0.02 else f"{50 * width:.1f}"
        steps.append(f"verify {verdicts} rows to get about ±{points} percentage points: {command}")
    draws = prior.draws or ()
    clean = [alpha for alpha, beta in draws if beta >= CLEAN_BETA]
    if MIN_DRAWS < len(clean) < len(draws):
        low, high = (float(end) for end in np.quantile(clean, [0.025, 0.975]))
        if high - low <= worthwhile:
            steps.append(
                f"if at least {words.show(CLEAN_BETA, 1)} of the labels are correct, {words.alpha} "
                f"is in {show_interval((low, high))}: add {option('beta_between')} {CLEAN_BETA:g} 1"
            )
    return steps


def _purity_steps(prior: Prior, worthwhile: float, command: str, words: Wording) -> list[str]:
    """The question on which the answer turns, where it turns on how pure the top is."""
    assumed = prior.assumed
    if assumed is None or assumed.purity > 0 or prior.audit is not None:
        return []
    by_purity = {purity: (low, high) for purity, low, high in assumed.sensitivity}
    low, high = prior.alpha_ci or (0.0, 1.0)
    interval = by_purity.get(ASKED_PURITY, (low, high))
    narrows = interval[1] - interval[0] <= worthwhile
    if not narrows and high - low <= (prior.alpha or 0):
        return []
    best = "lowest-scoring" if prior.labeled_class == "negative" else "best"
    rows = f"of the unlabeled rows that score like your {best} labeled ones"
    steps = []
    if narrows:
        steps.append(
            f"are at least 3 in 10 {rows} {prior.labeled_class}? Then {words.alpha} is in "
            f"{show_interval(interval)}: add {option('purity', ASKED_PURITY)}"
        )
    draw = command.replace("audit.tsv", "top.tsv")  # beside an audit of all rows
    which = (
        f"to find out, verify {ASKED_ROWS} of them" if narrows else f"verify {ASKED_ROWS} {rows}"
    )
    steps.append(f"{which}: {draw} {option('top')} {option('rows')} {ASKED_ROWS}")
    if (
        prior.labeled_class == "positive"
        and (prior.alpha or 0) <= RARE < high
        and not assumed.alpha_between
    ):
        known = f"{option('alpha_between')} 0 {RARE:g}"
        steps.append(f"if it is known otherwise that positives are this rare: {known}")
    return steps


def with_interval(fraction: float, interval: Interval | None) -> str:
    """A fraction with its interval, unless it is fixed."""
    if interval is None or interval[0] == interval[1]:
        return percent(fraction)
    return f"{percent(fraction)} {show_interval(interval)}"


def show_interval(interval: Interval) -> str:
    """An interval as the terminal shows it."""
    return f"[{percent(lower_end(interval))}, {percent(interval[1])}]"


def lower_end(interval: Interval) -> float:
    """The lower end of an interval as it is shown: 0 if it is as good as that."""
    low, high = interval
    return low if low >= min(LITTLE, FAR_BELOW * high) else 0.0
