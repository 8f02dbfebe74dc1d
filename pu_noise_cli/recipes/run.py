"""`run`: from tables to scores, alpha and beta, posteriors and a report in one directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import PunoiseError
from ..pipeline import (
    Posteriors,
    ScoredRows,
    calibrate_scores,
    compute_bounds,
    failed_prior_for,
    interpret,
    provenance,
    with_groups,
    write_posteriors,
)
from ..prior.document import Prior
from ..result import Result, Tables
from ..scale.engine import Engine
from ..settings import Analysis, RunSettings, Wanted
from ..tables.results import Provenance, new_results
from ..tables.rows import Rows
from ..tables.writing import MemoryTable, write_json
from .parts import (
    check_shards,
    commit,
    contributions_of,
    estimate_prior,
    input_files,
    learn_and_score,
    open_inputs,
    tables_in,
    write_documents,
)


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
        result = analyze(settings, rows, engine, tables_in(results, settings))
        write_documents(result, settings, results)
        return WrittenRun(result, commit(results, result, engine))


def analyze(settings: Analysis, rows: Rows, engine: Engine, tables: Tables) -> Result:
    """Score the rows, estimate alpha and beta, and write what each score says of its row."""
    scored = learn_and_score(settings, rows, engine, tables)
    prior = estimate_prior(settings, scored, engine)
    source = provenance(rows, scored.trained, settings.options, settings.execution)
    return finish_analysis(settings.wanted, scored, prior, source, engine, tables.posterior)


def finish_analysis(
    wanted: Wanted,
    scored: ScoredRows,
    prior: Prior,
    source: Provenance,
    engine: Engine,
    out: str | MemoryTable,
) -> Result:
    """Write what each score says of its row, given alpha and beta."""
    posteriors = make_posteriors(wanted, scored, prior, engine)
    written = write_posteriors(posteriors, scored, engine, out)
    return Result(scored, prior, posteriors, written.listed, source, contributions_of(scored))


def make_posteriors(wanted: Wanted, scored: ScoredRows, prior: Prior, engine: Engine) -> Posteriors:
    """What each score says of its row, and of a row of each group."""
    calibration = calibrate_scores(scored, prior)
    # cross-validation kept the groups of a learned score apart
    bounds = compute_bounds(
        calibration, scored, engine, wanted.seed, widen_by_groups=not scored.learned
    )
    posteriors = interpret(calibration, wanted, bounds)
    if wanted.by is not None:
        posteriors = with_groups(posteriors, scored, wanted, engine)
    return posteriors


def write_failure(settings: RunSettings, error: PunoiseError, out_dir: str) -> Prior:
    """Write a prior.json that explains the failure; what is not an earlier run's stays."""
    prior = failed_prior_for(settings.prior, error)
    with new_results(out_dir) as results:
        if left := results.others(["prior.json"]):
            prior = prior.with_remark(f"of an earlier run, not of this one: {', '.join(left)}")
        write_json(results.path("prior.json"), prior.to_json())
        options, execution = dict(settings.options), dict(settings.execution)
        results.commit(Provenance(options=options, execution=execution, warnings=[*prior.notices]))
    return prior
