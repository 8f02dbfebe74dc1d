"""What several recipes have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..answer import write_answer
from ..errors import EstimationError
from ..numerics import FloatArray
from ..pipeline import (
    ScoredRows,
    check_settings,
    check_unlabeled,
    estimate,
    open_rows,
    score_rows,
    train,
)
from ..prior.document import Prior
from ..result import Result, Tables
from ..scale.engine import Engine, check_sharded_target
from ..score.contributions import Contribution, write_columns
from ..score.scores import open_scores
from ..settings import Analysis, RunSettings
from ..tables.results import SHARDED, NewResults
from ..tables.rows import Rows
from ..tables.writing import write_json, write_text


def input_files(settings: RunSettings) -> list[str]:
    """The names of the input files."""
    inputs = settings.inputs
    tables = (inputs.labeled, inputs.unlabeled, inputs.negatives, inputs.table)
    return [table for table in tables if isinstance(table, str)]


def open_inputs(settings: Analysis) -> Rows:
    """The rows, once the settings are known to be possible with them."""
    check_unlabeled(settings.inputs, settings.prior.alpha)
    rows = open_rows(settings.inputs)
    check_settings(settings.prior, rows)
    return rows


def check_shards(settings: RunSettings, rows: Rows, out_dir: str) -> None:
    """Stop where tables cannot be written as shards."""
    if settings.sharded:
        for name in SHARDED:
            check_sharded_target(os.path.join(out_dir, name, ""), rows, in_results=True)


def tables_in(results: NewResults, settings: RunSettings) -> Tables:
    """The tables of rows among new results."""
    scores, posterior = (results.path(settings.table(name)) for name in ("scores", "posterior"))
    return Tables(scores=scores, posterior=posterior)


def learn_and_score(settings: Analysis, rows: Rows, engine: Engine, tables: Tables) -> ScoredRows:
    """Learn a score unless a column is one, and write SCORES."""
    trained = train(rows, settings.scoring, engine, keep_digests=True, groups_matter=True)
    scored = score_rows(rows, trained, engine, tables.scores)
    return replace(scored, scores=open_scores(tables.scores))


def estimate_prior(settings: Analysis, scored: ScoredRows, engine: Engine) -> Prior:
    """Alpha and beta; an EstimationError if there are none."""
    prior = estimate(scored, settings.prior, engine)
    if prior.alpha is None:
        raise EstimationError(prior.reason)
    return prior


def contributions_of(scored: ScoredRows) -> Sequence[Contribution]:
    """What columns contribute to a score that was just learned."""
    return () if scored.trained is None else scored.trained.contributions


def write_documents(
    result: Result,
    settings: RunSettings,
    results: NewResults,
    group_columns: Mapping[str, FloatArray] | None = None,
) -> None:
    """Write all files of a result but its tables of rows; GROUPS gets further columns."""
    write_json(results.path("prior.json"), result.prior.to_json())
    if result.scored.learned:
        write_columns(result.contributions, str(results.folder))
    if result.groups is not None:
        result.groups.write(results.path(f"groups.{settings.table_format}"), group_columns)
    result.listed.write(str(results.folder))
    write_text(results.path("report.html"), result.page(settings.table("scores")).html())
    write_answer(result.answer, results.path("model.punoise"))


def commit(results: NewResults, result: Result, engine: Engine) -> Sequence[str]:
    """Give the files their names; the provenance has the warnings and times of all steps."""
    provenance = result.provenance
    assert provenance is not None
    provenance.execution["seconds"] = engine.seconds
    provenance.warnings = list(dict.fromkeys((*provenance.warnings, *result.notices)))
    return results.commit(provenance)
