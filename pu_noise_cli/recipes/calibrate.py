"""`calibrate`: from a score to thresholds of evidence, and everything that `run` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..pipeline import (
    Posteriors,
    ScoredRows,
    calibrate_scores,
    compute_bounds,
    interpret,
    provenance,
    with_groups,
    write_posteriors,
)
from ..prior.document import Prior
from ..result import Result
from ..scale.engine import Engine
from ..settings import CalibrateSettings, Wanted
from ..tables.results import GROUP_THRESHOLDS, THRESHOLDS, THRESHOLDS_JSON, new_results
from ..tables.writing import write_json, write_table
from ..variants.document import Control
from ..variants.groups import GroupThresholds
from ..variants.report import thresholds_section
from ..variants.rules import Grading
from ..variants.thresholds import GatherControls, Thresholds
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


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The thresholds of a score, and what they were found with."""

    result: Result
    thresholds: Thresholds
    group_thresholds: GroupThresholds | None
    files: Sequence[str] = ()


def calibrate(settings: CalibrateSettings, engine: Engine, out_dir: str) -> Calibrated:
    """Take the steps of `run`, and find the scores at which each level of evidence begins."""
    rows = open_inputs(settings)
    grading = Grading.read(settings.evidence, settings.wanted.target_alpha)
    with new_results(out_dir, input_files(settings)) as results:
        check_shards(settings, rows, out_dir)
        tables = tables_in(results, settings)
        scored = learn_and_score(settings, rows, engine, tables)
        prior = estimate_prior(settings, scored, engine)
        source = provenance(rows, scored.trained, settings.options, settings.execution)
        posteriors, thresholds, groups = grade_scores(
            settings.wanted, grading, scored, prior, engine
        )
        listed = write_posteriors(posteriors, scored, engine, tables.posterior).listed
        section = thresholds_section(thresholds, source.score_column, groups is not None)
        result = Result(
            scored, prior, posteriors, listed, source, contributions_of(scored), [section]
        )
        document = thresholds.to_json(
            prior,
            source.score_column,
            _controls(thresholds, scored, engine),
            disease=settings.disease,
            research_use_only=not settings.clinical_use,
        )
        write_table(results.path(THRESHOLDS), thresholds.table())
        write_json(results.path(THRESHOLDS_JSON), document)
        if groups is not None:
            groups.write(results.path(GROUP_THRESHOLDS))
        write_documents(result, settings, results, None if groups is None else groups.columns)
        return Calibrated(result, thresholds, groups, commit(results, result, engine))


def grade_scores(
    wanted: Wanted, grading: Grading, scored: ScoredRows, prior: Prior, engine: Engine
) -> tuple[Posteriors, Thresholds, GroupThresholds | None]:
    """What each score says of its row, with its level of evidence; bounds are those of levels."""
    calibration = calibrate_scores(scored, prior)
    bounds = compute_bounds(calibration, scored, engine, wanted.seed, widen_by_groups=True)
    thresholds = Thresholds.from_calibration(calibration, bounds, grading, scored.negated)
    posteriors = interpret(calibration, wanted, thresholds.bounds)
    posteriors = posteriors.with_notices(thresholds.notices)
    if wanted.by is None:
        return posteriors.with_column("evidence", thresholds.evidence()), thresholds, None
    posteriors = with_groups(posteriors, scored, wanted, engine)
    assert posteriors.group_posteriors is not None
    groups = GroupThresholds.from_posteriors(posteriors.group_posteriors, thresholds)
    return posteriors.with_column("evidence", groups.evidence()), thresholds, groups


def _controls(thresholds: Thresholds, scored: ScoredRows, engine: Engine) -> list[Control]:
    """The rows of known class."""
    assert scored.scores is not None
    step = GatherControls(scored.negated, scored.sketch.labeled_class, thresholds.ranges)
    return engine.gather(step, scored.scores, "controls")
