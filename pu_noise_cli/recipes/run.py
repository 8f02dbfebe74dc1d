"""`run`: from tables to scores, alpha and beta, posteriors and a report in one directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..answer import write_answer
from ..audit.design import audit_command
from ..errors import EstimationError, PunoiseError
from ..notices import Notice
from ..pipeline import (
    Inputs,
    Posteriors,
    PriorSettings,
    ScoredRows,
    ScoreSettings,
    Wanted,
    answer,
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
    sample_report,
    score_rows,
    train,
    write_posteriors,
)
from ..posterior.candidates import ListedRows
from ..posterior.groups import Groups
from ..prior.document import Prior
from ..report.page import Page, Section
from ..scale.engine import Engine, check_sharded_target
from ..score.contributions import write_columns
from ..score.scores import open_scores
from ..tables.results import SHARDED, NewResults, Provenance, new_results
from ..tables.rows import Rows
from ..tables.writing import write_json, write_text


@dataclass(frozen=True)
class RunSettings:
    """All settings of `run`."""

    inputs: Inputs
    scoring: ScoreSettings
    prior: PriorSettings
    wanted: Wanted
    table_format: str = "parquet"
    sharded: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # that affect results
    execution: Mapping[str, Any] = field(default_factory=dict)  # that do not

    def table(self, name: str) -> str:
        """The name of a table of rows: a file, or a directory of shards."""
        return f"{name}/" if self.sharded else f"{name}.{self.table_format}"


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run found and wrote."""

    scored: ScoredRows
    prior: Prior
    posteriors: Posteriors
    listed: ListedRows
    page: Page  # the report
    provenance: Provenance
    files: Sequence[str] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        return (*self.prior.notices, *self.posteriors.notices)

    @property
    def groups(self) -> Groups | None:
        """Alpha by group."""
        by_group = self.posteriors.by_group
        return None if by_group is None else by_group.groups


def run(settings: RunSettings, engine: Engine, out_dir: str) -> RunResult:
    """Take all steps from tables to a report; files in `out_dir` change once all have succeeded."""
    rows = open_inputs(settings)
    with new_results(out_dir, input_files(settings)) as results:
        check_shards(settings, rows, out_dir)
        scored, source = learn_and_score(settings, rows, engine, results)
        prior = estimate_alpha(settings, scored, engine, results)
        result = write_results(settings, scored, prior, source, engine, results)
        return replace(result, files=results.commit(source))


def write_results(
    settings: RunSettings,
    scored: ScoredRows,
    prior: Prior,
    source: Provenance,
    engine: Engine,
    results: NewResults,
) -> RunResult:
    """Write what follows from alpha and beta."""
    wanted = settings.wanted
    calibration = calibrate_scores(scored, prior)
    bounds = bound(calibration, scored, engine, wanted.seed, of_groups=not scored.learned)
    posteriors = interpret(calibration, wanted, bounds)
    if wanted.by is not None:
        posteriors = by_group(posteriors, scored, wanted, engine)
        write_groups(settings, posteriors, results)
    return conclude(settings, scored, prior, posteriors, source, engine, results)


# ---- Parts that other recipes share


def input_files(settings: RunSettings) -> list[str]:
    """The names of the input files."""
    inputs = settings.inputs
    tables = (inputs.labeled, inputs.unlabeled, inputs.negatives, inputs.table)
    return [table for table in tables if isinstance(table, str)]


def open_inputs(settings: RunSettings) -> Rows:
    """The rows, once the settings are known to be possible with them."""
    check_unlabeled(settings.inputs, settings.prior.alpha)
    rows = open_rows(settings.inputs)
    check_settings(settings.prior, rows)
    return rows


def check_shards(settings: RunSettings, rows: Rows, out_dir: str) -> None:
    """Stop where tables cannot be written as shards."""
    for name in SHARDED if settings.sharded else ():
        check_sharded_target(os.path.join(out_dir, name, ""), rows, in_results=True)


def learn_and_score(
    settings: RunSettings, rows: Rows, engine: Engine, results: NewResults
) -> tuple[ScoredRows, Provenance]:
    """Learn a score unless a column is one, and write SCORES and columns.tsv."""
    out = results.path(settings.table("scores"))
    trained = train(rows, settings.scoring, engine, keep_digests=True)
    scored = replace(score_rows(rows, trained, engine, out), scores=open_scores(out))
    if trained.learned:
        write_columns(trained.contributions, str(results.folder))
    return scored, provenance(rows, trained, settings.options, settings.execution)


def estimate_alpha(
    settings: RunSettings, scored: ScoredRows, engine: Engine, results: NewResults
) -> Prior:
    """Estimate alpha and beta, and write PRIOR.json; an error if there is no estimate."""
    prior = estimate(scored, settings.prior, engine)
    if prior.alpha is None:
        raise EstimationError(prior.reason)
    write_json(results.path("prior.json"), prior.to_json())
    return prior


def write_groups(
    settings: RunSettings,
    posteriors: Posteriors,
    results: NewResults,
    further: Mapping[str, Any] | None = None,
) -> None:
    """Write GROUPS, with further columns."""
    assert posteriors.by_group is not None
    out = results.path(f"groups.{settings.table_format}")
    posteriors.by_group.groups.write(out, further)


def conclude(
    settings: RunSettings,
    scored: ScoredRows,
    prior: Prior,
    posteriors: Posteriors,
    source: Provenance,
    engine: Engine,
    results: NewResults,
    sections: Sequence[Section] = (),
) -> RunResult:
    """Write POSTERIOR, the lists, the report and the model."""
    out = results.path(settings.table("posterior"))
    written = write_posteriors(posteriors, scored, engine, out)
    written.listed.write(str(results.folder))
    trained = scored.trained
    page = sample_report(
        prior,
        posteriors,
        written.listed,
        source,
        () if trained is None else trained.contributions,
        sections=sections,
        command=audit_command(settings.table("scores"), "prior.json"),
    )
    write_text(results.path("report.html"), page.html())
    write_answer(answer(scored, prior, posteriors), results.path("model.punoise"))
    source.execution["seconds"] = engine.seconds
    return RunResult(scored, prior, posteriors, written.listed, page, source)


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
