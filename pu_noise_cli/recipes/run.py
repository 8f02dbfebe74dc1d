"""`run`: from tables to scores, alpha and beta, posteriors and a report in one directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..answer import write_answer
from ..errors import EstimationError, PunoiseError
from ..numerics import FloatArray
from ..pipeline import (
    Posteriors,
    ScoredRows,
    bound,
    by_group,
    calibrate_scores,
    check_settings,
    check_unlabeled,
    estimate,
    failed_prior_for,
    interpret,
    open_rows,
    provenance,
    score_rows,
    train,
    write_posteriors,
)
from ..prior.document import Prior
from ..result import Result, Tables
from ..scale.engine import Engine, check_sharded_target
from ..score.contributions import Contribution, write_columns
from ..score.scores import open_scores
from ..settings import Analysis, RunSettings, Wanted
from ..tables.results import SHARDED, NewResults, Provenance, new_results
from ..tables.rows import Rows
from ..tables.writing import MemoryTable, write_json, write_text


@dataclass(frozen=True)
class WrittenRun:
    """A result, and the files that hold it."""

    result: Result
    files: Sequence[str]


def run(settings: RunSettings, engine: Engine, out_dir: str) -> WrittenRun:
    """Take all steps from tables to a report; files in `out_dir` change once all have succeeded."""
    rows = open_inputs(settings)
    with new_results(out_dir, input_files(settings)) as results:
        check_shards(settings, rows, out_dir)
        result = answer_rows(settings, rows, engine, tables_in(results, settings))
        write_documents(result, settings, results)
        return WrittenRun(result, commit(results, result, engine))


def answer_rows(settings: Analysis, rows: Rows, engine: Engine, tables: Tables) -> Result:
    """Score the rows, estimate alpha and beta, and write what each score says of its row."""
    scored = learn_and_score(settings, rows, engine, tables)
    prior = estimate_alpha(settings, scored, engine)
    source = provenance(rows, scored.trained, settings.options, settings.execution)
    return interpret_rows(settings.wanted, scored, prior, source, engine, tables.posterior)


def interpret_rows(
    wanted: Wanted,
    scored: ScoredRows,
    prior: Prior,
    source: Provenance,
    engine: Engine,
    out: str | MemoryTable,
) -> Result:
    """Write what each score says of its row, given alpha and beta."""
    posteriors = interpret_scores(wanted, scored, prior, engine)
    written = write_posteriors(posteriors, scored, engine, out)
    return Result(scored, prior, posteriors, written.listed, source, contributions_of(scored))


def interpret_scores(
    wanted: Wanted, scored: ScoredRows, prior: Prior, engine: Engine
) -> Posteriors:
    """What each score says of its row, and of a row of each group."""
    calibration = calibrate_scores(scored, prior)
    bounds = bound(calibration, scored, engine, wanted.seed, of_groups=not scored.learned)
    posteriors = interpret(calibration, wanted, bounds)
    if wanted.by is not None:
        posteriors = by_group(posteriors, scored, wanted, engine)
    return posteriors


# ---- Parts that other recipes share


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
    for name in SHARDED if settings.sharded else ():
        check_sharded_target(os.path.join(out_dir, name, ""), rows, in_results=True)


def tables_in(results: NewResults, settings: RunSettings) -> Tables:
    """The tables of rows among new results."""
    return Tables(*(results.path(settings.table(name)) for name in SHARDED))


def learn_and_score(settings: Analysis, rows: Rows, engine: Engine, tables: Tables) -> ScoredRows:
    """Learn a score unless a column is one, and write SCORES."""
    trained = train(rows, settings.scoring, engine, keep_digests=True)
    scored = score_rows(rows, trained, engine, tables.scores)
    return replace(scored, scores=open_scores(tables.scores))


def estimate_alpha(settings: Analysis, scored: ScoredRows, engine: Engine) -> Prior:
    """Alpha and beta; an error if there is no estimate."""
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
    of_groups: Mapping[str, FloatArray] | None = None,
) -> None:
    """Write a result but for its tables of rows; GROUPS may have further columns."""
    write_json(results.path("prior.json"), result.prior.to_json())
    if result.scored.learned:
        write_columns(result.contributions, str(results.folder))
    if result.groups is not None:
        result.groups.write(results.path(f"groups.{settings.table_format}"), of_groups)
    result.listed.write(str(results.folder))
    write_text(results.path("report.html"), result.page(settings.table("scores")).html())
    write_answer(result.answer, results.path("model.punoise"))


def commit(results: NewResults, result: Result, engine: Engine) -> Sequence[str]:
    """Give the files of a result their names."""
    assert result.provenance is not None
    result.provenance.execution["seconds"] = engine.seconds
    return results.commit(result.provenance)


def write_failure(settings: RunSettings, error: PunoiseError, out_dir: str) -> Prior:
    """Write prior.json that says why there is no estimate, in place of a run's results."""
    prior = failed_prior_for(settings.prior, error)
    with new_results(out_dir) as results:
        if left := results.others(["prior.json"]):
            prior = prior.with_remark(f"of an earlier run, not of this one: {', '.join(left)}")
        write_json(results.path("prior.json"), prior.to_json())
        options, execution = dict(settings.options), dict(settings.execution)
        results.commit(Provenance(options=options, execution=execution, warnings=[*prior.notices]))
    return prior
