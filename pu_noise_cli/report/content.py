"""The numbers that a report shows, computed once, and how numbers are written for readers.

Time and memory depend on the number of cells of the sketch, not on that of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evidence.thresholds import Threshold, Thresholds
from ..notices import Kind, Notice, kinds
from ..numerics import FloatArray, IntArray, mid_ranks, relative_mid_ranks
from ..posterior.calibration import Calibration, corrected_auc, posterior_at
from ..posterior.groups import Groups
from ..posterior.table import DoubtfulRow
from ..prior.base import Interval
from ..prior.document import (
    LITTLE,
    STATED,
    Prior,
    Wording,
    certainty,
    effective_purity,
    is_contradicted,
    lower_end,
)
from ..prior.estimation import elbows
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED
from ..tables.writing import InputFile, Provenance

Columns = dict[str, Any]  # arrays or lists of equal length, by name
Weights = FloatArray | IntArray  # of the cells of a sketch, shape (cells,)

NBSP = "\u00a0"
WIDE = 0.4  # width of an interval beyond which an estimate says little
SCORE_BINS = 64  # a power of two: then the cells of scores in [0, 1] fall whole into bins
MIN_VISIBLE = 0.05  # of the height of a chart: lower bars are drawn once more, enlarged
ENLARGED_HEIGHT = 1.3  # of an enlarged chart, in units of its tallest bar of positives
CURVE_POINTS = 160
MAX_LIKELIHOOD_POINTS = 500
RELIABILITY_GROUPS = 20
POSTERIOR_BINS = 20
POSTERIOR_LEVELS = (0.5, 0.9, 0.99)
FDR_LEVELS = (0.01, 0.05, 0.1, 0.2)
TAIL = 0.002  # fraction of rows at either end that may lie outside the drawn range of scores
Z = 1.96
MIN_PURITIES, MAX_PURITIES = 3, 100  # that are drawn
MAX_LOG_ODDS = 5.0  # decades of odds that are drawn on either side of even odds
LARGEST_GROUPS = 20

# What depends on the class of the labeled rows.
WORDS = {
    "positive": {
        "labeled_set": "labeled",
        "truly": "truly are",
        "best": "best",
        "best_scoring": "best-scoring",
        "end": "top",
        "limit": "the higher the least share α can have",
        "unlabeled_can_be": "positive",
        "labeled_positives": "β",
    },
    "negative": {
        "labeled_set": "labeled as negatives",
        "truly": "truly are negative",
        "best": "lowest-scoring",
        "best_scoring": "lowest-scoring",
        "end": "bottom",
        "limit": "the lower the largest share α can have",
        "unlabeled_can_be": "negative",
        "labeled_positives": f"1{NBSP}−{NBSP}β",
    },
}


# ---- Numbers for readers


def percent(fraction: float) -> str:
    """A fraction for readers: 18.5 %, with two decimals where it is nearly 0 or 1."""
    value = 100 * fraction
    edge = min(value, 100 - value)
    if 0 < edge < 0.005:
        return f"{value:.1g}{NBSP}%" if value < 50 else f"more than 99.99{NBSP}%"
    decimals = 0 if edge == 0 else 2 if edge < 1 else 1
    return f"{value:.{decimals}f}{NBSP}%"


def count(number: float) -> str:
    """A number of rows, in groups of three digits."""
    return f"{round(number):,}"


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash for none."""
    return "–" if value is None else f"{value:.{digits}g}"


def _round_percent(fraction: float, digits: int) -> str:
    return f"{100 * fraction:.{min(max(digits - 2, 0), 1)}f}{NBSP}%"


WORDING = Wording("α", "β", _round_percent)


# ---- What is shown


@dataclass(frozen=True)
class Proportion:
    """α or β with its 95 % interval, whose lower end is 0 where it is next to nothing."""

    value: float
    low: float | None = None
    high: float | None = None
    is_wide: bool = False

    @classmethod
    def from_estimate(cls, value: float, interval: Interval | None) -> Proportion:
        if interval is None:
            return cls(value)
        low, high = interval
        return cls(value, lower_end(interval), high, high - low > min(value, WIDE))

    @property
    def range(self) -> str:
        """The interval in words; there must be one."""
        return percent_range(self.low or 0.0, self.high or 0.0)

    @property
    def cell(self) -> str:
        """The value and its interval for a table."""
        low = f"{self.low:.4f}" if self.low else "0"
        return f"{self.value:.4f}" + ("" if self.high is None else f" [{low}, {self.high:.4f}]")


def percent_range(low: float, high: float) -> str:
    return f"{percent(lower_end((low, high)))} to {percent(high)}"


@dataclass(frozen=True)
class Warned:
    """A warning with its meaning and remedy."""

    code: str
    message: str
    meaning: str
    remedy: str


@dataclass(frozen=True)
class MethodEstimate:
    """What one method says."""

    method: str
    alpha: Proportion
    beta: Proportion
    alpha_plus: float | None
    beta_plus: float | None
    is_answer: bool


@dataclass(frozen=True, eq=False)
class Likelihood:
    """AlphaMax's log-likelihood of α⁺ or β⁺."""

    name: str  # alpha_plus or beta_plus
    x: FloatArray  # (points,), increasing
    y: FloatArray
    answer: float | None  # the value of the method that gives the answer
    elbow: float | None  # AlphaMax's own, where that is another method


@dataclass(frozen=True)
class Sensitivity:
    """The interval of α by the purity assumed."""

    columns: Columns  # purity, low, high
    stated: float
    is_used: bool
    is_contradicted: bool


@dataclass(frozen=True, eq=False)
class Histogram:
    """The scores of one sample, and of the others for comparison, as fractions of their rows."""

    sample: str  # labeled, unlabeled, or population, which stands for unlabeled rows
    fraction: float  # of positives
    columns: Columns  # low, high, middle, total, positive, negative, and a line for each other set
    lines: tuple[str, ...]  # labeled, unlabeled, known
    enlarged_top: float | None  # where positives are too few to be seen, the height to draw


@dataclass(frozen=True, eq=False)
class Roc:
    """Fractions of two samples above each threshold, from (0, 0) to (1, 1)."""

    upper: str
    lower: str
    columns: Columns  # i, threshold, x, y
    auc: float | None


@dataclass(frozen=True)
class Calls:
    """The rows that reach a level of the posterior or of the false discovery rate."""

    level: float
    unlabeled: int
    labeled: int
    negative: int
    positive_fraction: float | None  # expected among such rows; None without rows
    lowest_score: float | None

    @property
    def positives(self) -> float:
        return self.unlabeled * (self.positive_fraction or 0.0)


@dataclass(frozen=True)
class Evidence:
    """Levels of evidence, and the posterior by score at the prior that they are for."""

    prior: float
    levels: tuple[Threshold, ...]
    begins: tuple[str, ...]  # the scores at which each level begins, or that it is not reached
    columns: Columns  # score, posterior, low, high, and their log odds


@dataclass(frozen=True)
class GroupTable:
    """The largest groups."""

    by: str
    total: int
    rows: tuple[dict[str, Any], ...]  # name, unlabeled, labeled, alpha, shift


@dataclass(frozen=True)
class DoubtfulLabel:
    """A doubtful row with the probability that its label is correct."""

    row: int
    id: str
    score: float
    correct: float


@dataclass(frozen=True, eq=False)
class ReportContent:
    """All that the page of one sample shows, as plain data."""

    prior: Prior
    sketch: Sketch
    labeled_class: str
    words: Mapping[str, str]  # that depend on the class of the labeled rows
    is_stated: bool  # α and β are the user's own
    # the answer and what it assumes
    alpha: Proportion
    beta: Proportion
    certainty: Mapping[str, str | None]
    assumed: str | None  # beforehand, in words
    sensitivity: Sensitivity | None
    warnings: tuple[Warned, ...]
    # the score
    histograms: tuple[Histogram, ...]
    is_beyond_axis: bool  # some rows score beyond the drawn range
    observed_rocs: tuple[Roc, ...]
    recovered_roc: Roc | None
    auc: float | None  # of positives against negatives
    # how α and β were estimated
    estimates: tuple[MethodEstimate, ...]
    likelihoods: tuple[Likelihood, ...]
    # posteriors, in the population that they are for
    target_alpha: float | None  # None: the population of the unlabeled rows
    population_alpha: float | None  # None: the same; else the fraction of positives in it
    reliability: Columns  # predicted, observed, low, high, rows
    by_score: Columns  # score, posterior, posterior_labeled, fdr, and low, high where bounded
    posterior_rows: FloatArray  # (POSTERIOR_BINS,): unlabeled rows by posterior
    calls_by_posterior: tuple[Calls, ...]
    calls_by_fdr: tuple[Calls, ...]
    evidence: Evidence | None
    groups: GroupTable | None
    doubtful: tuple[DoubtfulLabel, ...]
    # where it all comes from
    provenance: Provenance | None
    sources: tuple[InputFile, ...]


def report_content(
    prior: Prior,
    calibration: Calibration,
    posterior: Mapping[str, Any],
    bounds: tuple[FloatArray, FloatArray] | None = None,
    *,
    target_alpha: float | None = None,
    doubtful: Sequence[DoubtfulRow] = (),
    provenance: Provenance | None = None,
    sources: Iterable[InputFile] = (),
    thresholds: Thresholds | None = None,
    groups: Groups | None = None,
) -> ReportContent:
    """Compute what the page of one sample shows.

    Parameters
    ----------
    prior
        It must hold an estimate.
    calibration
        In the population of the unlabeled rows.
    posterior
        The columns `posterior` and `fdr` of POSTERIOR by cell, each of shape (cells,), in the
        population with `target_alpha` positives.
    bounds
        One-sided 95 % bounds on the posterior, both of shape (cells,).
    doubtful
        The labeled rows whose scores speak most against their labels.
    sources
        The files that the report itself is made from.
    """
    assert prior.alpha is not None
    assert prior.beta is not None
    sketch = calibration.sketch
    labeled_class, p, fdr = sketch.labeled_class, posterior["posterior"], posterior["fdr"]
    drawn = score_range(sketch)
    cells = _curve_cells(sketch, *drawn)
    by_score = {
        "score": sketch.scores[cells],
        "posterior": p[cells],
        "posterior_labeled": calibration.posterior_labeled[cells],
        "fdr": fdr[cells],
    }
    if bounds is not None:
        by_score |= {"low": bounds[0][cells], "high": bounds[1][cells]}
    return ReportContent(
        prior=prior,
        sketch=sketch,
        labeled_class=labeled_class,
        words=WORDS[labeled_class],
        is_stated=prior.method == STATED,
        alpha=Proportion.from_estimate(prior.alpha, prior.alpha_ci),
        beta=Proportion.from_estimate(prior.beta, prior.beta_ci),
        certainty=_certainty(prior, WORDS[labeled_class]),
        assumed=None if prior.assumed is None else prior.assumed.words,
        sensitivity=_sensitivity(prior, calibration),
        warnings=explain(
            (
                *(() if provenance is None else provenance.warnings),
                *prior.notices,
                *calibration.notices,
            )
        ),
        histograms=_histograms(calibration, drawn),
        is_beyond_axis=bool(sketch.scores[0] < drawn[0] or sketch.scores[-1] > drawn[1]),
        observed_rocs=_observed_rocs(sketch, labeled_class),
        recovered_roc=_recovered_roc(calibration),
        auc=prior.auc if sketch.n_unlabeled else corrected_auc(calibration),
        estimates=_method_estimates(prior),
        likelihoods=_likelihoods(prior, sketch),
        target_alpha=target_alpha,
        population_alpha=target_alpha
        if target_alpha is not None or sketch.n_unlabeled
        else prior.alpha,
        reliability=_reliability(calibration),
        by_score=by_score,
        posterior_rows=_posterior_rows(sketch, p),
        calls_by_posterior=tuple(
            _calls(calibration, p >= level, fdr, level) for level in POSTERIOR_LEVELS
        ),
        calls_by_fdr=tuple(_calls(calibration, fdr <= level, fdr, level) for level in FDR_LEVELS),
        evidence=None if thresholds is None else _evidence(thresholds, calibration, cells),
        groups=None if groups is None else _group_table(groups),
        doubtful=_doubtful_labels(doubtful, calibration),
        provenance=provenance,
        sources=tuple(sources),
    )


def explain(notices: Iterable[Notice]) -> tuple[Warned, ...]:
    """Each warning once, with its meaning and remedy; other versions have codes of their own."""
    known = kinds()
    unknown = Kind("A warning of another version of punoise.", "See that version's README.")
    explained = []
    for notice in dict.fromkeys(notices):
        kind = known.get(notice.code, unknown)
        explained.append(Warned(notice.code, notice.message, kind.meaning, kind.remedy))
    return tuple(explained)


def _method_estimates(prior: Prior) -> tuple[MethodEstimate, ...]:
    return tuple(
        MethodEstimate(
            estimate.method,
            Proportion.from_estimate(estimate.alpha, estimate.alpha_ci),
            Proportion.from_estimate(estimate.beta, estimate.beta_ci),
            estimate.alpha_plus,
            estimate.beta_plus,
            estimate.method == prior.method,
        )
        for estimate in prior.estimates
    )


# ---- The answer and what it assumes


def _certainty(prior: Prior, words: Mapping[str, str]) -> dict[str, str | None]:
    """What is certain, what is likely and what would narrow the interval."""
    lines = certainty(prior, WORDING)
    likely = None
    if prior.alpha_ci is not None and prior.draws:
        likely = f"the 95{NBSP}% intervals above, "
        if "given" in lines:
            likely += f"given {lines['given']}"
        elif prior.assumed is None:
            likely += "which reflect sampling error only"
        else:
            end = words["best_scoring"]
            likely += f"which assume nothing of the {end} rows"
    return {"certain": lines.get("sure"), "likely": likely, "narrower": lines.get("next")}


def _sensitivity(prior: Prior, calibration: Calibration) -> Sensitivity | None:
    """The interval of α at each purity, where there are enough of them for a curve."""
    assumed = prior.assumed
    if assumed is None or not prior.draws or not calibration.shares.from_these_rows:
        return None
    # where scores separate little, less is assumed than is stated
    by_purity = {
        effective_purity(purity, prior.auc_pu or 0.5): (lower_end((low, high)), high)
        for purity, low, high in assumed.sensitivity
    }
    if len(by_purity) < MIN_PURITIES:
        return None
    is_used = assumed.purity >= LITTLE and not is_contradicted(prior)
    if is_used and prior.alpha_ci is not None:
        by_purity[assumed.purity] = lower_end(prior.alpha_ci), prior.alpha_ci[1]
    purities = sorted(by_purity)[:: -(-len(by_purity) // MAX_PURITIES)]
    columns = {
        "purity": purities,
        "low": [by_purity[purity][0] for purity in purities],
        "high": [by_purity[purity][1] for purity in purities],
    }
    return Sensitivity(columns, assumed.purity, is_used, is_contradicted(prior))


def _likelihoods(prior: Prior, sketch: Sketch) -> tuple[Likelihood, ...]:
    likelihoods = []
    own = elbows(prior, sketch)
    for name in ("alpha_plus", "beta_plus"):
        curve = (prior.curves or {}).get(name)
        if curve is None or not curve.proportion:
            continue
        order = np.argsort(curve.proportion, kind="stable")
        order = order[:: -(-len(order) // MAX_LIKELIHOOD_POINTS)]
        x, y = (np.array(values)[order] for values in (curve.proportion, curve.log_likelihood))
        likelihoods.append(Likelihood(name, x, y, getattr(prior, name), own.get(name)))
    return tuple(likelihoods)


# ---- The score


def score_range(sketch: Sketch) -> tuple[float, float]:
    """The scores to draw: [0, 1] where they fill it, else those of nearly all rows."""
    x = sketch.scores.clip(-1e300, 1e300)  # so that differences are finite
    low, high = float(x[0]), float(x[-1])
    samples = [rows for rows in (sketch.labeled, sketch.unlabeled, sketch.negative) if rows.any()]
    rank = np.cumsum(np.sum([rows / rows.sum() for rows in samples], axis=0)) / len(samples)
    inner_low, inner_high = x[np.searchsorted(rank, [TAIL, 1 - TAIL]).clip(0, len(x) - 1)]
    if low >= 0 and high <= 1 and inner_high - inner_low > 0.3:
        return 0.0, 1.0
    if high - low > 1.5 * (inner_high - inner_low) > 0:
        low, high = float(inner_low), float(inner_high)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = max(abs(low), 1.0) / 2
        return low - room, high + room
    return low, high


def binned(sketch: Sketch, weights: Weights, edges: FloatArray) -> FloatArray:
    """Sums of the weights of cells over bins, shape (bins,); the end bins hold what is beyond."""
    if sketch.level == 0:
        bins = np.searchsorted(edges, sketch.scores, side="right") - 1
        bins = bins.clip(0, len(edges) - 2)
        return np.bincount(bins, weights, len(edges) - 1).astype(np.float64)
    # cells have a width here: those that straddle an edge are divided between the bins
    below = np.interp(edges[1:-1], sketch.scores, mid_ranks(weights))
    return np.diff(np.concatenate([[0.0], below, [weights.sum()]]))


def _histograms(calibration: Calibration, drawn: tuple[float, float]) -> tuple[Histogram, ...]:
    """The scores of each sample as the sum of its positives and negatives.

    Without unlabeled rows, the population with the stated α stands for them.
    """
    sketch = calibration.sketch
    edges = np.linspace(*drawn, SCORE_BINS + 1)
    sets = {"labeled": sketch.labeled, "unlabeled": sketch.unlabeled, "known": sketch.negative}
    counts = {name: binned(sketch, rows, edges) for name, rows in sets.items() if rows.any()}
    heights = {name: rows / rows.sum() for name, rows in counts.items()}

    def histogram(sample: str, rows: Weights, p: FloatArray, fraction: float) -> Histogram:
        total = binned(sketch, rows, edges) / rows.sum()
        positive = (binned(sketch, rows * p, edges) / rows.sum()).clip(0, total)
        lines = {name: height for name, height in heights.items() if name != sample}
        tallest = max(float(height.max()) for height in (total, *lines.values()))
        most = float(positive.max())
        columns = {
            "low": edges[:-1],
            "high": edges[1:],
            "middle": (edges[:-1] + edges[1:]) / 2,
            "total": total,
            "positive": positive,
            "negative": total - positive,
            **lines,
        }
        is_flat = 0 < most < MIN_VISIBLE * tallest and sample != "labeled"
        top = ENLARGED_HEIGHT * most if is_flat else None
        return Histogram(sample, fraction, columns, tuple(lines), top)

    first = "unlabeled" if sketch.n_unlabeled else "population"
    shares, p = calibration.shares, calibration.posterior_labeled
    return (
        histogram(first, calibration.population, calibration.posterior, shares.alpha),
        histogram("labeled", sketch.labeled, p, shares.beta),
    )


def _roc(scores: FloatArray, upper: Weights, lower: Weights) -> Columns:
    """The ROC curve of two weights of the cells, at well-spread points."""
    y = np.append(0.0, np.cumsum(upper[::-1]) / upper.sum())
    x = np.append(0.0, np.cumsum(lower[::-1]) / lower.sum())
    threshold = np.append(scores[-1], scores[::-1])
    chosen = _spread((x + y) / 2, CURVE_POINTS)
    return {
        "i": range(len(chosen)),
        "threshold": threshold[chosen],
        "x": x[chosen].clip(0, 1),
        "y": y[chosen].clip(0, 1),
    }


def _observed_rocs(sketch: Sketch, labeled_class: str) -> tuple[Roc, ...]:
    """Samples against each other, the one with more positives first."""
    pairs = [(LABELED, UNLABELED), (LABELED, NEGATIVE)]
    if labeled_class == "negative":
        pairs = [(UNLABELED, LABELED)]
    rocs = []
    for upper, lower in pairs:
        rows = sketch.counts[:, upper], sketch.counts[:, lower]
        if not rows[1].any():
            continue
        auc = sketch.auc_against(lower) if upper == LABELED else 1 - sketch.auc_against(upper)
        rocs.append(Roc(SETS[upper], SETS[lower], _roc(sketch.scores, *rows), auc))
    return tuple(rocs)


def _recovered_roc(calibration: Calibration) -> Roc | None:
    """Positives against negatives: a row counts as p positives and 1 - p negatives."""
    rows, p = calibration.population, calibration.posterior
    positives, negatives = rows * p, rows * (1 - p)
    if min(positives.sum(), negatives.sum()) <= 0:
        return None
    columns = _roc(calibration.sketch.scores, positives, negatives)
    return Roc("positives", "negatives", columns, None)


def _spread(position: FloatArray, points: int) -> NDArray[np.intp]:
    """Indices of values of a sorted array that lie evenly over its range, with both ends."""
    even = np.linspace(position[0], position[-1], points)
    nearest = np.searchsorted(position, even).clip(0, len(position) - 1)
    return np.unique(np.concatenate([[0], nearest, [len(position) - 1]]))


def _curve_cells(sketch: Sketch, low: float, high: float) -> NDArray[np.intp]:
    """The cells at which curves over the score are drawn: even in score and in rank."""
    by_score = np.searchsorted(sketch.scores, np.linspace(low, high, CURVE_POINTS // 2))
    by_rank = _spread(np.cumsum(sketch.counts.sum(1)), CURVE_POINTS // 2)
    cells = np.unique(np.concatenate([by_score, by_rank]).clip(0, len(sketch.scores) - 1))
    inside = (sketch.scores[cells] >= low) & (sketch.scores[cells] <= high)
    return cells[inside] if inside.any() else cells


# ---- Posteriors


def _reliability(calibration: Calibration) -> Columns:
    """The labeled fraction of about twenty groups of rows of even size, with Wilson intervals.

    Without unlabeled rows, labeled rows are compared with known negatives.
    """
    sketch = calibration.sketch
    rows = sketch.labeled + (sketch.unlabeled if sketch.n_unlabeled else sketch.negative)
    here = rows > 0
    labeled, rows, predicted = sketch.labeled[here], rows[here], _labeled_rate(calibration)[here]
    _, group = np.unique(
        np.floor(relative_mid_ranks(rows) * RELIABILITY_GROUPS), return_inverse=True
    )
    n = np.bincount(group, rows).astype(np.float64)
    observed = np.bincount(group, labeled) / n
    middle = (observed + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(observed * (1 - observed) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return {
        "predicted": np.bincount(group, rows * predicted) / n,
        "observed": observed,
        "low": (middle - half).clip(0, 1),
        "high": (middle + half).clip(0, 1),
        "rows": n,
    }


def _labeled_rate(calibration: Calibration) -> FloatArray:
    """The fraction of labeled rows that the calibration predicts, shape (cells,)."""
    sketch, beta = calibration.sketch, calibration.shares.beta
    if sketch.n_unlabeled:
        return calibration.tau
    density = beta * calibration.lr + 1 - beta  # of labeled rows, relative to that of negatives
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 + sketch.n_negative / (sketch.n_labeled * density)))


def _posterior_rows(sketch: Sketch, posterior: FloatArray) -> FloatArray:
    bins = np.floor(posterior * POSTERIOR_BINS).astype(int).clip(0, POSTERIOR_BINS - 1)
    return np.bincount(bins, sketch.unlabeled, POSTERIOR_BINS).astype(np.float64)


def _calls(
    calibration: Calibration, passes: NDArray[np.bool_], fdr: FloatArray, level: float
) -> Calls:
    """The rows in the cells that pass, which are all from a lowest score up."""
    cells = np.flatnonzero(passes & (calibration.population > 0))
    if len(cells) == 0:
        return Calls(level, 0, 0, 0, None, None)
    unlabeled, labeled, negative = calibration.sketch.counts[passes].sum(0).tolist()
    lowest_score = float(calibration.sketch.scores[cells[0]])
    return Calls(level, unlabeled, labeled, negative, 1 - float(fdr[cells[0]]), lowest_score)


def _evidence(
    thresholds: Thresholds, calibration: Calibration, cells: NDArray[np.intp]
) -> Evidence:
    sign = -1.0 if thresholds.lower_is_positive else 1.0
    low, high = thresholds.bounds.at(thresholds.prior)
    posterior = posterior_at(calibration.lr, thresholds.prior)
    values = {"posterior": posterior[cells], "low": low[cells], "high": high[cells]}
    order = np.argsort(sign * calibration.sketch.scores[cells], kind="stable")
    columns = {
        "score": sign * calibration.sketch.scores[cells] + 0.0,
        **values,
        **{f"{name}_odds": log_odds(column) for name, column in values.items()},
    }
    return Evidence(
        thresholds.prior,
        thresholds.levels,
        tuple(_begins(one, thresholds.lower_is_positive) for one in thresholds.levels),
        {name: column[order] for name, column in columns.items()},
    )


def log_odds(p: FloatArray) -> FloatArray:
    """Decimal logarithms of odds, as far as they are drawn."""
    with np.errstate(divide="ignore"):
        return (np.log10(p) - np.log10(1 - p)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)


def _begins(threshold: Threshold, lower_is_positive: bool) -> str:
    if threshold.reached is None:
        return "not reached"
    sign = "≤" if threshold.level.against != lower_is_positive else "≥"
    return f"{sign} {number(threshold.reached.score_from)}"


def _group_table(groups: Groups) -> GroupTable:
    shares = groups.shares
    rows = tuple(
        {
            "name": groups.names[i],
            "unlabeled": groups.rows[i, UNLABELED],
            "labeled": groups.rows[i, LABELED],
            "alpha": Proportion.from_estimate(
                shares.alpha[i], (shares.alpha_low[i], shares.alpha_high[i])
            ),
            "shift": shares.shift[i],
        }
        for i in groups.largest(LARGEST_GROUPS)
    )
    return GroupTable(groups.by, len(groups.names) - 1, rows)


def _doubtful_labels(
    rows: Sequence[DoubtfulRow], calibration: Calibration
) -> tuple[DoubtfulLabel, ...]:
    """The doubtful rows with the probability that their labels are correct, lowest first."""
    cells = calibration.sketch.cell_index(np.array([row.score for row in rows], np.float64))
    return tuple(
        DoubtfulLabel(row.row, row.id, row.score, correct)
        for row, correct in zip(rows, calibration.label_correct[cells].tolist(), strict=True)
    )


# ---- Histograms on a terminal

BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"  # the plain ones are for terminals without UTF-8


def histogram_lines(sketch: Sketch, blocks: str = BLOCKS, width: int = 60) -> list[str]:
    """The scores of each set as a line of blocks, each to its own height, over one axis."""
    edges = np.linspace(*score_range(sketch), width + 1)
    low, high = f"{edges[0]:.3g}", f"{edges[-1]:.3g}"
    axis = low + "score".center(width - len(low) - len(high)) + high
    sets = {
        "unlabeled": sketch.unlabeled,
        "labeled": sketch.labeled,
        "negatives": sketch.negative,
    }

    def draw(rows: IntArray) -> str:
        counts = binned(sketch, rows, edges)
        # rounded up: a bin with any row is never blank
        heights = np.ceil(counts / max(counts.max(), 1e-300) * (len(blocks) - 1)).astype(int)
        return "".join(blocks[height] for height in heights)

    lines = [f"{name:<11}{draw(rows)}" for name, rows in sets.items() if rows.any()]
    return [*lines, f"{'':<11}{axis}"]
