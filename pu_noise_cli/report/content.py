"""The report of one sample, section by section: numbers here, words in the template."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..notices import Kind, Notice, kinds
from ..numerics import FloatArray
from ..posterior.calibration import Calibration
from ..posterior.candidates import ListedRows
from ..posterior.groups import Groups
from ..posterior.summary import Summary
from ..prior.document import (
    STATED,
    Prior,
    Wording,
    certainty,
    fixed_beta,
    is_contradicted,
    percent,
)
from ..score.contributions import Contribution
from ..score.sketch import Sketch
from ..tables.results import InputFile, Provenance
from . import figures
from .figures import WORDS, ScoreAxis, curve_cells
from .page import MAX_LISTED, Chart, Page, Proportion, Section, base_name, shortened

MAX_LABELS, MAX_CANDIDATES = 20, 200  # that are listed
MAX_COLUMNS = 20  # whose contributions are shown
MAX_WARNINGS = 50
WORDING = Wording("α", "β")
COLUMN_KINDS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}
HIDDEN = ("target_alpha",)  # the same in every row
HEADINGS = {
    "posterior_low": "lower bound",
    "posterior_high": "upper bound",
    "fdr": "FDR",
    "posterior_labeled": "probability of being positive",
}


@dataclass(frozen=True, eq=False)
class SampleData:
    """One sample: its estimates and scores, and what follows from them for every section."""

    summary: Summary
    calibration: Calibration  # in the population of the unlabeled rows
    posterior: FloatArray  # (cells,), in the population with `target_alpha` positives
    fdr: FloatArray  # (cells,)
    bounds: tuple[FloatArray, FloatArray] | None = None  # one-sided 95%, both (cells,)
    target_alpha: float | None = None
    provenance: Provenance | None = None

    @property
    def prior(self) -> Prior:
        """The prior, which has an estimate."""
        return self.summary.prior

    @property
    def sketch(self) -> Sketch:
        return self.calibration.sketch

    @property
    def auc(self) -> float | None:
        return self.summary.auc

    @cached_property
    def alpha(self) -> Proportion:
        return Proportion.from_estimate(self.prior.estimated[0], self.prior.alpha_ci)

    @cached_property
    def beta(self) -> Proportion:
        return Proportion.from_estimate(self.prior.estimated[1], self.prior.beta_ci)

    @property
    def population_alpha(self) -> float | None:
        """The fraction of positives that posteriors are for; None: that of the unlabeled rows."""
        if self.target_alpha is None and not self.sketch.n_unlabeled:
            return self.prior.alpha
        return self.target_alpha

    @property
    def population(self) -> str:
        """What posteriors are for, to follow a noun."""
        if self.population_alpha is None:
            return ""
        return f" in a population with {percent(self.population_alpha)} positives"

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Warnings of all steps, each once."""
        earlier = () if self.provenance is None else self.provenance.warnings
        return tuple(dict.fromkeys((*earlier, *self.summary.notices)))

    @property
    def score_title(self) -> str:
        """The name of the score: that of its column, if there is one."""
        column = None if self.provenance is None else self.provenance.score_column
        return shortened(column or "score")

    @property
    def is_negated(self) -> bool:
        """Whether the scores are those of a column with the opposite sign."""
        if self.provenance is None or self.provenance.score_column is None:
            return False
        return self.provenance.options.get("lower_is_positive") is True


def sample_page(
    summary: Summary,
    calibration: Calibration,
    posterior: Mapping[str, Any],
    bounds: tuple[FloatArray, FloatArray] | None = None,
    *,
    target_alpha: float | None = None,
    listed: ListedRows | None = None,
    contributions: Sequence[Contribution] = (),
    provenance: Provenance | None = None,
    sources: Iterable[InputFile] = (),
    sections: Sequence[Section] = (),
    groups: Groups | None = None,
    steps: Sequence[str] = (),
) -> Page:
    """The report of one sample.

    Parameters
    ----------
    summary
        Its prior must hold an estimate.
    posterior
        The columns `posterior` and `fdr` of POSTERIOR by cell, each of shape (cells,), in the
        population with `target_alpha` positives.
    listed
        Candidates, and labels to check.
    sources
        The files that the report itself is made from.
    sections
        What a domain adds.
    steps
        What would narrow the interval of α.
    """
    prior = summary.prior
    data = SampleData(
        summary,
        calibration,
        posterior["posterior"],
        posterior["fdr"],
        bounds,
        target_alpha,
        provenance,
    )
    title = data.score_title
    axis = ScoreAxis.from_sketch(
        data.sketch, title + (" (opposite sign)" if data.is_negated else "")
    )
    cells, rocs = curve_cells(data.sketch, axis), figures.observed_rocs(data.sketch)
    charts = {
        "sections": [chart for section in sections for chart in section.charts],
        "groups": [] if groups is None else figures.group_forest(groups),
        "scores": figures.distributions(calibration, axis),
        "posterior": [_posterior_chart(data, cells, axis)],
        "columns": figures.column_shares(largest_shares(contributions)),
        "selection": figures.selection(prior, calibration),
        "assumption": figures.sensitivity(prior, calibration),
        "roc": [figures.roc(calibration, rocs, data.auc)],
        "fit": [figures.score_fit(calibration)],
        "posteriors": figures.posteriors(data.sketch, data.posterior, data.population),
        "curves": [] if prior.method == STATED else figures.likelihoods(prior, data.sketch),
        "methods": figures.method_forests(prior),
    }
    source_list = list(sources)
    values = {
        "data": data,
        "prior": prior,
        "sketch": data.sketch,
        "labeled_class": data.sketch.labeled_class,
        "words": WORDS[data.sketch.labeled_class],
        **header_values(prior.sample, provenance, source_list),
        **_answer_values(data),
        "steps": steps,
        "warnings": explain(data.notices),
        "max_warnings": MAX_WARNINGS,
        "sections": sections,
        **_group_values(groups),
        "candidates": listed_table(
            None if listed is None else listed.candidates.table, MAX_CANDIDATES
        ),
        "calls_by_posterior": summary.by_posterior,
        "calls_by_fdr": summary.by_fdr,
        "lowest_fdr": summary.lowest_fdr,
        "labels": listed_table(None if listed is None else listed.labels.table, MAX_LABELS),
        "is_beyond_axis": data.sketch.scores[0] < axis.low or data.sketch.scores[-1] > axis.high,
        "axis": axis,
        "contributions": largest_shares(contributions),
        "n_contributions": len(contributions),
        "is_contradicted": is_contradicted(prior),
        "is_purity_used": figures.is_purity_used(prior),
        "rocs": rocs,
        "earlier": _earlier_estimate(prior),
        **provenance_values(provenance),
        "sources": source_list,
    }
    return Page("sample.html", _title(data, values["names"]), charts, values)


# ---- Header


def header_values(
    sample: str | None, provenance: Provenance | None, sources: Sequence[InputFile]
) -> dict[str, Any]:
    """The name of the sample or of its files."""
    files = [] if provenance is None else [entry.table for entry in provenance.inputs]
    files = [base_name(name) for name in dict.fromkeys(files or [one.file for one in sources])]
    names = [sample] if sample is not None else files[:3]
    return {"names": names, "files": files}


def _title(data: SampleData, names: Sequence[str]) -> str:
    name = ", ".join(shortened(one, 40) for one in names)
    return f"{name}{': ' if name else ''}α {data.alpha.text}, punoise report"


# ---- Can I use this?

GOOD_AUC, POOR_AUC = 0.8, 0.65  # of positives against negatives: above and below, the score ranks
NARROW = 0.5  # of α: an interval up to this wide
# what is said of the labeled rows
REPRESENTATIVE = {
    "assumed": ("ask", "not checked", "Your call: the data cannot show it. Verified rows can."),
    "checked": ("ok", "checked", "Verified rows do not contradict it."),
    "contradicted": ("poor", "no", "Verified rows contradict it, so the limits are left out."),
    None: ("ok", "not needed", "This estimate of α does not assume it."),
}


@dataclass(frozen=True)
class Check:
    """Something to look at before the answer is used."""

    question: str
    state: str  # ok, fair, poor or ask
    answer: str
    why: str


def warning_check(n_warnings: int) -> Check:
    """Whether any automatic check fired."""
    if not n_warnings:
        return Check("Are there warnings?", "ok", "none", "No automatic check fired.")
    return Check("Are there warnings?", "poor", str(n_warnings), "Read them below.")


def _checks(data: SampleData) -> list[Check]:
    prior, alpha = data.prior, data.alpha
    separates = ("ask", "unknown", "")
    if data.auc is not None:
        good = ("poor", "hardly") if data.auc < POOR_AUC else ("fair", "a little")
        good = ("ok", "yes") if data.auc >= GOOD_AUC else good
        separates = (*good, f"AUC {data.auc:.3f} of positives against negatives (1 is perfect).")
    narrow = ("ask", "none", "α was stated." if prior.method == STATED else "There is none.")
    if prior.alpha_ci is not None:
        low, high = prior.alpha_ci
        state = ("ok", "yes") if high - low <= NARROW * alpha.value else ("fair", "moderately")
        state = ("poor", "no") if alpha.is_wide else state
        narrow = (*state, f"It is {100 * (high - low):.1f} percentage points wide.")
    representative = REPRESENTATIVE[prior.representative]
    if prior.method == STATED:
        representative = ("ask", "not checked", "Posteriors assume it.")
    return [
        Check("Does the score separate positives from negatives?", *separates),
        Check("Is the interval of α narrow?", *narrow),
        Check(f"Are the labeled {prior.labeled_class}s representative?", *representative),
        warning_check(len(data.notices)),
    ]


# ---- The numbers


def _answer_values(data: SampleData) -> dict[str, Any]:
    prior = data.prior
    both = (("α", data.alpha), ("β", data.beta))
    return {
        "alpha": data.alpha,
        "beta": data.beta,
        "auc": data.auc,
        "checks": _checks(data),
        "is_stated": prior.method == STATED,
        "fixed_beta": fixed_beta(prior),
        "wide": [symbol for symbol, one in both if one.is_wide],
        "certainty": certainty(prior, WORDING),
        "is_likely": prior.alpha_ci is not None and prior.draws,
        "target_alpha": data.target_alpha,
        "population_alpha": data.population_alpha,
        "population": data.population,
        "is_bounded": data.bounds is not None,
    }


def explain(notices: Iterable[Notice]) -> list[tuple[Notice, Kind]]:
    """Each warning once, with its meaning and remedy; other versions have codes of their own."""
    known = kinds()
    unknown = Kind(
        "A warning of another version of punoise.",
        "See the list of warnings in that version's documentation.",
    )
    return [(notice, known.get(notice.code, unknown)) for notice in dict.fromkeys(notices)]


def _earlier_estimate(prior: Prior) -> Any:
    """What the scores alone said of α and β before rows were verified."""
    if prior.audit is None:
        return None
    return next((one for one in prior.estimates if one.method != prior.method), None)


# ---- Groups


def _group_values(groups: Groups | None) -> dict[str, Any]:
    if groups is None:
        return {"groups": None, "largest_groups": []}
    return {"groups": groups, "largest_groups": groups.largest(figures.LARGEST_GROUPS)}


# ---- Candidates and labels to check


@dataclass(frozen=True)
class ListedTable:
    """Rows of a table: names of columns, and cells that are text or numbers."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: int  # rows, shown or not


def listed_table(table: pa.Table | None, limit: int) -> ListedTable:
    """The first rows of a table, with headings for people."""
    if table is None:
        return ListedTable((), [], 0)
    shown = table.drop_columns([name for name in HIDDEN if name in table.column_names])
    columns = [column.to_pylist() for column in shown.slice(0, limit).columns]
    headings = tuple(HEADINGS.get(name, name) for name in shown.column_names)
    return ListedTable(headings, list(zip(*columns, strict=True)), table.num_rows)


# ---- Why


def _posterior_chart(data: SampleData, cells: NDArray[np.intp], axis: ScoreAxis) -> Chart:
    columns = {
        "score": data.sketch.scores[cells],
        "posterior": data.posterior[cells],
        "posterior_labeled": data.calibration.posterior_labeled[cells],
        "fdr": data.fdr[cells],
    }
    if data.bounds is not None:
        columns |= {"low": data.bounds[0][cells], "high": data.bounds[1][cells]}
    return figures.posterior_by_score(columns, axis, data.population)


# ---- Columns


def largest_shares(contributions: Sequence[Contribution]) -> list[Contribution]:
    """The columns with the largest shares."""
    return [one for one in contributions if None not in (one.share, one.spread)][:MAX_COLUMNS]


# ---- Provenance


def provenance_values(provenance: Provenance | None) -> dict[str, Any]:
    """Options, files first and without their directories; the command line; kinds of columns."""
    if provenance is None:
        return {"provenance": None, "options": [], "command": "", "n_columns": 0}
    tables = [entry.table for entry in provenance.inputs]
    files = {
        name: base_name(v)
        for name, v in provenance.options.items()
        if isinstance(v, str) and v in tables
    }
    options = files | {name: v for name, v in provenance.options.items() if name not in files}
    column_kinds: dict[str, set[str]] = {}
    for column in provenance.columns:
        kind = COLUMN_KINDS.get(column.kind or "", "of another kind")
        column_kinds.setdefault(kind, set()).add(column.column)
    return {
        "provenance": provenance,
        "options": [(name, _option_text(value)) for name, value in options.items()][:MAX_LISTED],
        "command": shlex.join(command_words(options, _repeated_by(provenance))),
        "column_kinds": {kind: len(names) for kind, names in column_kinds.items()},
        "n_columns": len({column.column for column in provenance.columns}),
    }


def _repeated_by(provenance: Provenance) -> str:
    return "calibrate" if provenance.execution.get("command") == "calibrate" else "run"


def _option_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return str(value)


def command_words(options: dict[str, Any], command: str = "run") -> list[str]:
    """The command line that gives `run`, or `calibrate`, these options."""
    words = ["punoise", command]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if name == "transform" and value is False:
            words.append("--no-transform")
        elif value is True:
            words.append(option)
        elif isinstance(value, list | tuple):
            if value and all(isinstance(item, float) for item in value):
                words += [option, *map(str, value)]  # the ends of a range
                continue
            for item in value:
                words += [option, _comma_list(item)]
        elif value is not None and value is not False:
            words += [option, str(value)]
    return [*words, "--out-dir", "results"]


def _comma_list(item: Any) -> str:
    if not isinstance(item, list | tuple):
        return str(item)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(item)
    return line.getvalue()
