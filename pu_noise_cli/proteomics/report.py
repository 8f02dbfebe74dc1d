"""What is shown of a target-decoy search, of one run or many: report.html and matches.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from .. import __version__
from ..notices import Notice
from ..numerics import FloatArray
from ..report import figures
from ..report.content import (
    MAX_WARNINGS,
    Check,
    explain,
    header_values,
    largest_shares,
    provenance_values,
    warning_check,
)
from ..report.page import Chart, Page, as_rows, count, rounded, shortened
from ..score.contributions import Contribution
from ..tables.files import Count, Fraction
from ..tables.results import Provenance
from .matches import PSMS, Confidence

RATES = (0.001, 0.005, 0.01, 0.05, 0.1)  # false discovery rates at which targets are counted
ACCEPTED = 0.01
MAX_Q_VALUE = 0.1  # that is drawn
CURVE_POINTS = 120
HISTOGRAM_BINS = 60
MANY_DECOYS, FEW_DECOYS = 1000, 100  # so many count wrong PSMs well, or hardly
LEVEL_NAMES = {"psms": "PSMs", "peptides": "peptides", "proteins": "proteins"}
MAX_RUNS = 1000  # that are listed


# ---- matches.json


class LevelCounts(msgspec.Struct, frozen=True):
    """The matches, peptides or proteins of an experiment."""

    targets: Count
    decoys: Count
    pi0: Fraction  # the fraction of wrong ones among the targets
    accepted: list[tuple[float, Count]]  # targets up to each q-value


class PartCounts(msgspec.Struct, frozen=True):
    """The best matches of a run or a group."""

    name: str
    targets: Count
    decoys: Count
    pi0: Fraction  # the fraction of wrong ones among the targets: the mean PEP of a group
    accepted: Count  # targets at 1%, by the q-value within the run or the group


class Histogram(msgspec.Struct, frozen=True):
    """Targets and decoys by score."""

    edges: list[float]
    targets: list[Count]
    decoys: list[Count]


class MatchesDocument(msgspec.Struct, kw_only=True):
    """matches.json: an experiment in numbers."""

    schema: Literal["punoise.matches/1"] = "punoise.matches/1"
    punoise_version: str = __version__
    n_matches: Count  # in the files, best of their spectra or not
    levels: dict[str, LevelCounts]
    runs: list[PartCounts]
    groups: list[PartCounts] | None
    histogram: Histogram
    warnings: list[Notice]


# ---- report.html


@dataclass(frozen=True)
class LevelRow:
    """The targets of a level that are accepted at each rate."""

    name: str
    targets: int
    decoys: int
    pi0: float  # the fraction of wrong ones among the targets
    accepted: list[int]  # at RATES


def search_page(
    levels: Mapping[str, Confidence],
    *,
    runs: Sequence[PartCounts],
    groups: Sequence[PartCounts],
    contributions: Sequence[Contribution],
    provenance: Provenance,
) -> Page:
    """The report of a search.

    Parameters
    ----------
    levels
        The best matches of spectra (psms), of peptides and of proteins.
    """
    warnings = list(dict.fromkeys(provenance.warnings))
    psms, rows = levels[PSMS], [_level_row(name, level) for name, level in levels.items()]
    charts = {
        "search": [_q_value_curve(levels), _histogram(psms)],
        "columns": figures.column_shares(largest_shares(contributions), "decoys from targets"),
    }
    header = header_values(None, provenance, ())
    values = {
        **header,
        "levels": rows,
        "rates": [f"{100 * rate:g}%" for rate in RATES],
        "at": RATES.index(ACCEPTED),
        "correct": 1 - rows[0].pi0,
        "checks": _checks(rows, len(warnings)),
        "warnings": explain(warnings),
        "max_warnings": MAX_WARNINGS,
        "runs": runs[:MAX_RUNS],
        "n_runs": len(runs),
        "groups": groups,
        "contributions": largest_shares(contributions),
        "n_contributions": len(contributions),
        **provenance_values(provenance),
    }
    accepted = ", ".join(f"{count(row.accepted[values['at']])} {row.name}" for row in rows[:2])
    names = ", ".join(shortened(name, 40) for name in header["names"])
    title = f"{names}{': ' if names else ''}{accepted} at 1% FDR, punoise report"
    return Page("proteomics/search.html", title, charts, values)


def _level_row(name: str, level: Confidence) -> LevelRow:
    decoys = int(level.matches.labeled.sum())
    return LevelRow(
        LEVEL_NAMES.get(name, name),
        len(level.matches.labeled) - decoys,
        decoys,
        1 - level.calibration.shares.alpha,
        [level.accepted(rate) for rate in RATES],
    )


def _checks(levels: Sequence[LevelRow], n_warnings: int) -> list[Check]:
    psms = levels[0]
    accepted = psms.accepted[RATES.index(ACCEPTED)]
    decoys = ("ok", "yes") if psms.decoys >= MANY_DECOYS else ("fair", "some")
    decoys = ("poor", "few") if psms.decoys < FEW_DECOYS else decoys
    found = ("ok", "yes") if accepted else ("poor", "no")
    checks = [
        Check("Are PSMs accepted at 1% FDR?", *found, f"{count(accepted)} PSMs."),
        Check("Are there enough decoys?", *decoys, f"{count(psms.decoys)} decoys won a spectrum."),
        Check(
            "Do decoys score like wrong targets?",
            "ask",
            "not checked",
            "Your call: the data cannot show this. If decoys score lower, too many PSMs pass.",
        ),
    ]
    return [*checks, warning_check(n_warnings)]


# ---- Charts


def _q_value_curve(levels: Mapping[str, Confidence]) -> Chart:
    """The targets of each level that are accepted, by q-value."""
    rows: list[dict[str, Any]] = []
    names, ends = [], []
    for level, found in levels.items():
        name = LEVEL_NAMES.get(level, level)
        q_value = np.sort(found.q_value[~found.matches.labeled])
        rates = np.linspace(0, MAX_Q_VALUE, CURVE_POINTS + 1)
        accepted = np.searchsorted(q_value, rates, side="right")
        rows += as_rows({"level": [name] * len(rates), "q_value": rates, "accepted": accepted})
        names.append(name)
        ends.append({"q_value": MAX_Q_VALUE, "accepted": int(accepted[-1]), "level": name})
    counts = "; ".join(
        f"{level.accepted(ACCEPTED):,} {LEVEL_NAMES.get(name, name)}"
        for name, level in levels.items()
    )
    return Chart(
        "q-values",
        "proteomics/q_values",
        "Accepted targets by q-value",
        f"How many targets are accepted up to each q-value; up to 0.01: {counts}.",
        rows,
        {"levels": names, "dashes": [[1, 0], [6, 4], [2, 3]][: len(names)]},
        {"ends": ends},
    )


def _histogram(psms: Confidence) -> Chart:
    """The scores of the PSMs, targets and decoys."""
    score, decoy = psms.matches.score, psms.matches.labeled
    axis = figures.ScoreAxis.from_sketch(psms.calibration.sketch)
    edges = axis.edges(HISTOGRAM_BINS)
    clipped = score.clip(edges[0], edges[-1])
    targets, decoys = (_counts(clipped[kind], edges) for kind in (~decoy, decoy))
    places = axis.place(edges)
    columns = {"low": edges[:-1], "high": edges[1:], "left": places[:-1], "right": places[1:]}
    columns |= {"middle": (places[:-1] + places[1:]) / 2}
    accepted = score[~decoy & (psms.q_value <= ACCEPTED)]
    cut: list[dict[str, Any]] = []
    said = "no target is accepted at 1% FDR"
    if len(accepted):
        lowest = float(accepted.min())
        place = axis.place(np.array([np.clip(lowest, edges[0], edges[-1])]))[0]
        cut = [{"x": rounded(float(place)), "text": "1% FDR"}]
        said = f"targets are accepted at 1% FDR from a score of {lowest:.4g} up"
    return Chart(
        "targets-decoys",
        "proteomics/targets_decoys",
        "Scores of targets and decoys",
        f"Histogram of the scores of the best match of each spectrum, {int((~decoy).sum()):,} "
        f"targets and {int(decoy.sum()):,} decoys; {said}.",
        as_rows(columns | {"targets": targets, "decoys": decoys}),
        {
            "score_title": "score",
            "score_axis": axis.spec,
            "domain": [rounded(float(places[0])), rounded(float(places[-1]))],
            "cut": bool(cut),
        },
        {"cut": cut},
    )


def _counts(scores: FloatArray, edges: FloatArray) -> list[int]:
    bins = (np.searchsorted(edges, scores, side="right") - 1).clip(0, len(edges) - 2)
    counts: list[int] = np.bincount(bins, minlength=len(edges) - 1).tolist()
    return counts
