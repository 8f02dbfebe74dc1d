"""Files to what a report shows: SCORES in one pass, POSTERIOR where it is given in another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import EstimationError, InputError, Notice
from ..features import Column, Encoding
from ..posterior import MEAN_TOLERANCE, Calibration, calibrate
from ..prior import DEFAULT_METHOD, failed_prior, prior_shares
from ..rows import Rows
from ..sketch import Sketch, SketchBuilder
from ..steps import ScoredRows
from ..tables import Table, open_table, read_bytes, read_json
from ..transform.training import check_sizes
from .charts import Chart
from .content import (
    DoubtfulRow,
    DoubtfulRows,
    InputFile,
    PriorView,
    Provenance,
    ReportContent,
    base_name,
    suspicious_labels,
)
from .page import render, render_samples, sample_charts, single_charts

POSTERIOR_COLUMNS = ("score", "posterior", "tau", "posterior_labeled")


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
    go_on: bool = False,
) -> Report:
    """The report of one sample with its scores, else the one that compares samples.

    `go_on` makes of a failure a page that says why.
    """
    if scores is not None:
        try:
            content = read_content(scores, priors[0], posterior, provenance)
        except (InputError, EstimationError) as error:
            if not go_on:
                raise
            failed = _own_failure(priors[0]) or _failed(priors[0], error)
            return Report(render_samples([failed]), [], failed.notices)
        charts = [chart for group in single_charts(content).values() for chart in group]
        return Report(render(content), charts, content.calibration.notices)
    views = []
    for name in priors:
        try:
            views.append(PriorView.of(name, read_json(name)))
        except InputError as error:
            if not go_on:
                raise
            views.append(_failed(name, error))
    return Report(render_samples(views), sample_charts(views))


def _own_failure(prior: str) -> PriorView | None:
    """A prior that says itself why it has no estimate."""
    try:
        view = PriorView.of(prior, read_json(prior))
    except InputError:
        return None
    return None if view.estimated else view


def _failed(prior: str, error: Exception) -> PriorView:
    return PriorView.of(prior, failed_prior(DEFAULT_METHOD, 0, error, None).as_json())


def read_content(
    scores: str, prior: str, posterior: str | None, provenance: str | None
) -> ReportContent:
    """The content of a report from the files that name it."""
    prior_json = read_json(prior)
    view, shares = PriorView.of(prior, prior_json), prior_shares(prior, prior_json)
    given = None if provenance is None else Provenance.of(provenance, read_json(provenance))
    scored = ScoredRows.open(scores)
    sketch, doubtful = _read_scores(scored)
    calibration = calibrate(sketch, shares)
    tables = [scored.rows.tables[0]]
    if posterior is not None:
        tables.append(open_table(posterior))
        calibration = _as_written(calibration, tables[-1])
    documents = [name for name in (prior, provenance) if name is not None]
    return ReportContent(
        view,
        calibration,
        suspicious_labels(doubtful, calibration),
        given,
        (*_shards(tables), *(_document(name) for name in documents)),
    )


def _read_scores(scored: ScoredRows) -> tuple[Sketch, list[DoubtfulRow]]:
    builder, doubtful = SketchBuilder(), DoubtfulRows()
    for chunk, scores in scored.chunks(("id", "score")):
        builder.add(scores, chunk.labeled)
        doubtful.add(scored.rows.ids(chunk), scores, chunk.labeled, chunk.first_row)
    sketch = builder.sketch()
    check_sizes(scored.rows.tables[0].name, sketch.n_labeled, sketch.n_unlabeled)
    return sketch, doubtful.kept


def _as_written(calibration: Calibration, table: Table) -> Calibration:
    """The calibration that a POSTERIOR file holds, cell by cell; its rows are those of SCORES."""
    for column in ("id", "set", *POSTERIOR_COLUMNS):
        table.require(column, "--posterior")
    rows = Rows.matched([table], features=POSTERIOR_COLUMNS, id_column="id", label_column="set")
    encoding = Encoding(tuple(Column(name, "number") for name in POSTERIOR_COLUMNS))
    sketch = calibration.sketch
    size = len(sketch.edges)
    sums, labeled, unlabeled = np.zeros((3, size)), np.zeros(size), np.zeros(size)
    for chunk in rows.chunks(POSTERIOR_COLUMNS):
        values = encoding.encode(chunk)
        values[~chunk.labeled, 3] = 0
        for i, name in enumerate(POSTERIOR_COLUMNS):
            bad = np.isnan(values[:, i]) if i == 0 else ~((values[:, i] >= 0) & (values[:, i] <= 1))
            if bad.any():
                raise chunk.error(name, "has no value that it could have", int(bad.argmax()))
        cells = sketch.cells_of(values[:, 0])
        labeled += np.bincount(cells, chunk.labeled, size)
        unlabeled += np.bincount(cells, ~chunk.labeled, size)
        for total, column in zip(sums, values[:, 1:].T, strict=True):
            total += np.bincount(cells, column, size)
    if not (
        np.array_equal(labeled, sketch.labeled) and np.array_equal(unlabeled, sketch.unlabeled)
    ):
        raise InputError(f"{table.name}: its rows are not those of --scores")
    counts = labeled + unlabeled
    with np.errstate(invalid="ignore", divide="ignore"):
        own = sums[2] / labeled
    posterior = sums[0] / counts
    mean, alpha = float(posterior @ unlabeled / unlabeled.sum()), calibration.prior.alpha
    notices = [n for n in calibration.notices if n.code != "posterior-mean-off"]
    if abs(mean - alpha) > MEAN_TOLERANCE:
        message = f"{base_name(table.name)}: the posterior averages to {mean:.4f} over the "
        message += f"unlabeled rows, not to alpha {alpha:.4f}"
        notices.append(Notice("posterior-mean-off", message))
    return replace(
        calibration,
        notices=tuple(notices),
        posterior=posterior,
        tau=sums[1] / counts,
        posterior_labeled=np.where(labeled > 0, own, calibration.posterior_labeled),
    )


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
