"""Files to what a report shows: SCORES in one pass, POSTERIOR where it is given in another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import EstimationError, InputError
from ..evidence.strengths import Grading
from ..evidence.thresholds import Thresholds
from ..notices import Notice
from ..posterior.bounds import bounds
from ..posterior.calibration import Calibration, calibrate
from ..posterior.table import DoubtfulRow, DoubtfulRows
from ..prior.document import parse_prior, read_prior, shares_for
from ..prior.estimation import DEFAULT_METHOD, failed_prior
from ..score.scores import Scores
from ..score.sketch import Sketch, SketchBuilder
from ..score.training import check_sizes
from ..tables.files import read_bytes, read_json
from ..tables.reading import Table, open_table
from ..tables.results import check_same_run
from .charts import Chart
from .comparison import comparison_charts, render_comparison
from .content import (
    InputFile,
    PosteriorCurve,
    Provenance,
    ReportContent,
    Sample,
    base_name,
    bounds_on_posterior,
    suspicious_labels,
)
from .page import render, sample_charts
from .written import as_written


@dataclass(frozen=True)
class Report:
    """A page, its charts for other uses, and what to warn of."""

    page: str
    charts: list[Chart]
    notices: tuple[Notice, ...] = ()


def report_of(
    priors: Sequence[str],
    scores: str | None = None,
    posterior: str | None = None,
    provenance: str | None = None,
    grading: Grading | None = None,
    go_on: bool = False,
) -> Report:
    """The report of one sample with its scores, else the one that compares samples.

    `go_on` makes of a failure a page that says why.
    """
    if scores is not None:
        try:
            content = read_content(scores, priors[0], posterior, provenance, grading)
        except (InputError, EstimationError) as error:
            if not go_on:
                raise
            failed = _own_failure(priors[0]) or _failed(priors[0], error)
            return Report(render_comparison([failed]), [], failed.prior.notices)
        charts = [chart for group in sample_charts(content).values() for chart in group]
        return Report(render(content), charts, content.calibration.notices)
    samples = []
    for name in priors:
        try:
            samples.append(_read_sample(name))
        except InputError as error:
            if not go_on:
                raise
            samples.append(_failed(name, error))
    return Report(render_comparison(samples), comparison_charts(samples))


def _read_sample(name: str) -> Sample:
    prior = parse_prior(name, read_json(name))
    return Sample(prior.sample_name(name), prior)


def _own_failure(name: str) -> Sample | None:
    """A sample whose prior says itself why it has no estimate."""
    try:
        sample = _read_sample(name)
    except InputError:
        return None
    return sample if sample.prior.answer is None else None


def _failed(name: str, error: Exception) -> Sample:
    prior = failed_prior(DEFAULT_METHOD, 0, error, None)
    return Sample(prior.sample_name(name), prior)


def read_content(
    scores: str,
    prior: str,
    posterior: str | None = None,
    provenance: str | None = None,
    grading: Grading | None = None,
) -> ReportContent:
    """The content of a report from the files that name it."""
    found = read_prior(prior)
    given = None
    if provenance is not None:
        document = read_json(provenance)
        given = Provenance.of(provenance, document)
        of_run = [name for name in (scores, prior, posterior) if name is not None]
        files = document.get("files")
        check_same_run(provenance, files if isinstance(files, dict) else {}, of_run)
    opened = Scores.open(scores)
    sketch, doubtful = _read_scores(opened, -1.0 if found.labeled_class == "negative" else 1.0)
    sketch, shares, notices = shares_for(found, sketch)
    calibration = calibrate(sketch, shares)
    calibration = replace(calibration, notices=(*notices, *calibration.notices))
    tables = [opened.rows.tables[0]]
    if posterior is None:
        target = None if grading is None else grading.target_alpha
        pair = bounds_on_posterior(calibration, found.seed, target)
        by_score = PosteriorCurve.of(calibration, target, pair)
    else:
        tables.append(open_table(posterior))
        calibration, by_score = as_written(calibration, tables[-1], found.seed)
    documents = [name for name in (prior, provenance) if name is not None]
    return ReportContent(
        found,
        calibration,
        by_score,
        suspicious_labels(doubtful, calibration),
        given,
        (*_shards(tables), *(_document(name) for name in documents)),
        _thresholds(calibration, grading, by_score, given, found.seed),
    )


def _thresholds(
    calibration: Calibration,
    grading: Grading | None,
    by_score: PosteriorCurve,
    given: Provenance | None,
    seed: int,
) -> Thresholds | None:
    """Where levels of evidence begin, in the population that the posteriors are for."""
    if grading is None:
        return None
    turned = given is not None and given.options.get("lower_is_positive") is True
    held = bounds(calibration, seed)
    of_population = replace(grading, target_alpha=by_score.target_alpha)
    return Thresholds.of(calibration, held, of_population, turned)


def _read_scores(opened: Scores, label_sign: float) -> tuple[Sketch, list[DoubtfulRow]]:
    builder = SketchBuilder(opened.rows.labeled_class)
    doubtful = DoubtfulRows(label_sign=label_sign)
    for chunk, scores in opened.chunks([*opened.rows.id_columns, "score"]):
        builder.add(scores, chunk.sets)
        doubtful.add(opened.rows.ids(chunk), scores, chunk.labeled, chunk.first_row)
    sketch = builder.sketch()
    check_sizes(opened.name, sketch.counts.sum(0), sketch.missing)
    return sketch, doubtful.kept


def _shards(tables: Iterable[Table]) -> list[InputFile]:
    return [
        InputFile(base_name(shard.name), shard.sha256())
        for table in tables
        for shard in table.shards
    ]


def _document(name: str) -> InputFile:
    if name == "-":
        return InputFile("standard input", "–")
    return InputFile(base_name(name), hashlib.sha256(read_bytes(name).getvalue()).hexdigest())
