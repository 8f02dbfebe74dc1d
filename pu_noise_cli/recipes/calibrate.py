"""`calibrate`: from a score to thresholds of evidence, and everything that `run` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..pipeline import (
    ScoredRows,
    bound,
    by_group,
    calibrate_scores,
    interpret,
)
from ..prior.document import Prior
from ..scale.engine import Engine
from ..tables.results import GROUP_THRESHOLDS, THRESHOLDS, Provenance, new_results
from ..variants.groups import GroupThresholds
from ..variants.report import thresholds_section
from ..variants.rules import Grading
from ..variants.thresholds import Control, GatherControls, Publication, Thresholds
from .run import (
    RunResult,
    RunSettings,
    check_shards,
    conclude,
    estimate_alpha,
    input_files,
    learn_and_score,
    open_inputs,
    write_groups,
)


@dataclass(frozen=True)
class CalibrateSettings(RunSettings):
    """All settings of `calibrate`."""

    evidence: str = "acmg"  # the name or file of a rule
    disease: str | None = None  # a MONDO id
    clinical_use: bool = False


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What a calibration found and wrote."""

    run: RunResult
    thresholds: Thresholds
    group_thresholds: GroupThresholds | None = None


def calibrate(settings: CalibrateSettings, engine: Engine, out_dir: str) -> Calibrated:
    """Take the steps of `run`, and find the scores at which each level of evidence begins."""
    rows = open_inputs(settings)
    wanted = settings.wanted
    grading = Grading.read(settings.evidence, wanted.target_alpha)
    with new_results(out_dir, input_files(settings)) as results:
        check_shards(settings, rows, out_dir)
        scored, source = learn_and_score(settings, rows, engine, results)
        prior = estimate_alpha(settings, scored, engine, results)
        calibration = calibrate_scores(scored, prior)
        bounds = bound(calibration, scored, engine, wanted.seed, of_groups=True)
        thresholds = Thresholds.from_calibration(calibration, bounds, grading, scored.negated)
        posteriors = interpret(calibration, wanted, thresholds.bounds)
        posteriors = posteriors.with_column("evidence", thresholds.evidence(), thresholds.notices)
        groups = None
        if wanted.by is not None:
            posteriors = by_group(posteriors, scored, wanted, engine)
            assert posteriors.by_group is not None
            groups = GroupThresholds.from_posteriors(posteriors.by_group, thresholds)
            posteriors = posteriors.with_column("evidence", groups.evidence())
            write_groups(settings, posteriors, results, groups.columns)
            groups.write(results.path(GROUP_THRESHOLDS))
        controls = _controls(scored, engine)
        about = _publication(settings, prior, source, controls)
        for name in THRESHOLDS:
            thresholds.write(results.path(name), about)
        section = thresholds_section(thresholds, source.score_column, groups is not None)
        result = conclude(settings, scored, prior, posteriors, source, engine, results, [section])
        result = replace(result, files=results.commit(source))
        return Calibrated(result, thresholds, groups)


def _controls(scored: ScoredRows, engine: Engine) -> list[Control]:
    """The rows of known class."""
    assert scored.scores is not None
    step = GatherControls(scored.negated, scored.sketch.labeled_class)
    return engine.gather(step, scored.scores, "controls")


def _publication(
    settings: CalibrateSettings, prior: Prior, source: Provenance, controls: Sequence[Control]
) -> Publication:
    """What the thresholds say about themselves."""
    assert prior.beta is not None  # or there would be no thresholds
    return Publication(
        prior.sample or source.score_column or "score",
        prior.method,
        prior.beta,
        disease=settings.disease,
        research_use_only=not settings.clinical_use,
        controls=controls,
        score_column=source.score_column,
    )
