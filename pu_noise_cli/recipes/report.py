"""`report`: the report of a directory of results, or of scores and their prior, anew."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..answer import load_answer
from ..errors import InputError
from ..notices import Notice
from ..pipeline import (
    Posteriors,
    ScoredRows,
    calibrate_scores,
    compute_bounds,
    in_population,
    interpret,
    read_scores,
)
from ..prior.document import Prior, read_prior
from ..report.page import Page, Section
from ..result import Result
from ..scale.engine import Engine
from ..score.contributions import COLUMNS, Contribution, read_columns
from ..score.scores import open_scores
from ..settings import ReportSettings, Wanted
from ..tables.files import read_bytes, read_document
from ..tables.results import PROVENANCE, InputFile, Provenance, check_complete, check_same_run
from ..tables.writing import check_target, write_text
from ..variants.report import thresholds_section
from ..variants.rules import Grading
from .calibrate import grade_scores
from .run import make_posteriors

SCORES = ("scores.parquet", "scores.tsv", "scores.csv", "scores/")


@dataclass(frozen=True)
class Report:
    """The page, where it was written, and what was noticed about the scores."""

    page: Page
    out: str
    notices: tuple[Notice, ...]


def report(settings: ReportSettings, engine: Engine) -> Report:
    """Write the report anew."""
    if settings.folder is not None:
        out = settings.out or os.path.join(settings.folder, "report.html")
        check_target(out)
        result = open_result(settings.folder, engine)
        names = scores_in(settings.folder), "prior.json"
    else:
        assert settings.scores is not None
        assert settings.prior is not None
        assert settings.out is not None
        out = settings.out
        check_target(out)
        result = _of_files(settings, settings.scores, settings.prior, engine)
        names = (_base(settings.scores), _base(settings.prior))
    page = result.page(*names)
    write_text(out, page.html())
    return Report(page, out, result.posteriors.notices)


def open_result(folder: str, engine: Engine) -> Result:
    """The result of a directory that `run` or `calibrate` wrote."""
    file = os.path.join(folder, PROVENANCE)
    check_complete(os.path.join(folder, "prior.json"))
    provenance = read_document(file, Provenance)
    files = (scores_in(folder), "prior.json", "model.punoise")
    names = [os.path.join(folder, file) for file in files]
    check_same_run(file, provenance.files, names)
    prior, model = read_prior(names[1]), load_answer(names[2], read_bytes(names[2]))
    rows = open_scores(names[0])
    scored = replace(
        read_scores(rows, engine),
        learned=provenance.score_column is None,
        negated=model.model.lower_is_positive,
        widening=model.widening,
    )
    posteriors, sections = _interpreted(provenance, scored, prior, engine)
    listed = engine.gather(posteriors.step, rows, "posterior").listed
    contributions = _contributions(file, provenance)
    return Result(scored, prior, posteriors, listed, provenance, contributions, sections)


def scores_in(folder: str) -> str:
    """The name of SCORES in a directory of results."""
    for name in SCORES:
        if os.path.exists(os.path.join(folder, name)):
            return name
    raise InputError(f"{folder}: has no scores; is it a directory of 'run' or 'calibrate'?")


def _interpreted(
    provenance: Provenance, scored: ScoredRows, prior: Prior, engine: Engine
) -> tuple[Posteriors, Sequence[Section]]:
    """What each score says of its row, by the settings that a provenance states."""
    options = provenance.options
    wanted = Wanted(
        target_alpha=options.get("target_alpha"),
        by=options.get("by"),
        seed=options.get("seed", 0),
    )
    if provenance.execution.get("command") != "calibrate":
        return make_posteriors(wanted, scored, prior, engine), ()
    grading = Grading.read(options.get("evidence", "acmg"), wanted.target_alpha)
    posteriors, thresholds, groups = grade_scores(wanted, grading, scored, prior, engine)
    section = thresholds_section(thresholds, provenance.score_column, groups is not None)
    return posteriors, [section]


def _of_files(settings: ReportSettings, scores: str, prior_file: str, engine: Engine) -> Result:
    """The result of scores and their prior."""
    prior, provenance = read_prior(prior_file), None
    contributions: Sequence[Contribution] = ()
    if settings.provenance is not None:
        provenance = read_document(settings.provenance, Provenance)
        check_same_run(settings.provenance, provenance.files, [scores, prior_file])
        contributions = _contributions(settings.provenance, provenance)
    scored = read_scores(open_scores(scores), engine)
    calibrated_by, target_alpha = in_population(prior, settings.target_alpha)
    calibration = calibrate_scores(scored, calibrated_by)
    bounds = compute_bounds(calibration, scored, engine, prior.seed, widen_by_groups=True)
    posteriors = interpret(calibration, Wanted(target_alpha=target_alpha), bounds)
    assert scored.rows is not None
    listed = engine.gather(posteriors.step, scored.rows, "posterior").listed
    shards = scored.rows.tables[0].shards
    documents = [name for name in (prior_file, settings.provenance) if name is not None]
    sources = [
        *(InputFile("", shard.name, shard.sha256()) for shard in shards),
        *map(_digested, documents),
    ]
    return Result(scored, prior, posteriors, listed, provenance, contributions, sources=sources)


def _contributions(name: str, provenance: Provenance) -> Sequence[Contribution]:
    """What columns contributed to the score, if a file beside the provenance says so."""
    if COLUMNS not in provenance.files or name == "-":
        return ()
    folder = os.path.dirname(name)
    check_same_run(name, provenance.files, [os.path.join(folder, COLUMNS)])
    return read_columns(folder)


def _digested(name: str) -> InputFile:
    if name == "-":
        return InputFile("", "standard input", "–")
    return InputFile("", name, hashlib.sha256(read_bytes(name).getvalue()).hexdigest())


def _base(name: str) -> str:
    return Path(name.rstrip("/")).name
