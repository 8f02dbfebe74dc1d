"""`matches`: PSMs, peptides and decoys from the matches of one or many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..answer import Answer, load_answer, write_answer
from ..errors import UsageError, option
from ..notices import Notice
from ..pipeline import provenance, set_digests, survey_rows
from ..prior.checks import training_rows
from ..proteomics.columns import MatchRows, open_matches
from ..proteomics.experiment import OWN_COLUMNS, Experiment, score_runs, summarize
from ..proteomics.groups import Grouping
from ..proteomics.levels import PERCOLATOR_COLUMNS
from ..proteomics.matches import PSMS
from ..proteomics.report import MatchesDocument, search_page
from ..proteomics.training import TrainedOnDecoys, train_on_decoys
from ..scale.engine import Engine
from ..score.training import Trained
from ..settings import MatchSettings, ScoreSettings
from ..tables.files import document, read_bytes
from ..tables.results import new_results
from ..tables.writing import write_json, write_text

MAX_MATCHES = 400_000  # to train on: several matches of a spectrum say little more than one
RUNS = ".runs"  # in the directory of new results


@dataclass(frozen=True, eq=False)
class MatchResult:
    """What an experiment found and wrote."""

    experiment: Experiment
    trained: Trained | None  # none if a model was given
    document: MatchesDocument  # matches.json
    files: Sequence[str]

    @property
    def notices(self) -> tuple[Notice, ...]:
        return tuple(self.document.warnings)


def run_matches(settings: MatchSettings, engine: Engine, out_dir: str) -> MatchResult:
    """Take all steps from the matches of runs to PSMs, peptides and decoys in `out_dir`."""
    stored = None if settings.model is None else _load_model(settings.model)
    matches = _open_matches(settings, stored)
    grouping = None if settings.by is None else Grouping.from_rows(matches, settings.by)
    with new_results(out_dir, [*settings.runs, settings.model]) as results:
        engine.count_rows(matches.rows)
        shards = results.path(RUNS)
        if stored is None:
            learned = train_matches(matches, settings.scoring, engine)
            trained = learned.trained
            experiment = score_runs(matches, trained.scorer, engine, shards, grouping)
            notices = (*trained.notices, *experiment.notices(learned.discriminating))
            sketch = experiment.levels[PSMS].matches.sketch()
            write_answer(Answer(trained.model, sketch), results.path("model.punoise"))
        else:
            trained = None
            experiment = score_runs(matches, stored.model, engine, shards, grouping)
            seen = training_rows(stored.model.count_seen(matches.rows))
            notices = (*experiment.notices(()), *seen)
        summary = summarize(experiment, matches.rows, notices)
        with engine.timed("write"):
            experiment.write(str(results.folder), matches.rows, shards)
            write_json(results.path("matches.json"), document(summary))
        execution = {**settings.execution, "seconds": engine.seconds}
        source = provenance(matches.rows, trained, settings.options, execution, notices)
        page = search_page(
            experiment.levels,
            runs=summary.runs,
            groups=summary.groups or (),
            contributions=() if trained is None else trained.contributions,
            provenance=source,
        )
        write_text(results.path("report.html"), page.html())
        return MatchResult(experiment, trained, summary, results.commit(source))


def train_matches(matches: MatchRows, scoring: ScoreSettings, engine: Engine) -> TrainedOnDecoys:
    """Learn to separate decoys from targets."""
    limited = replace(scoring, max_train_rows=scoring.max_train_rows or MAX_MATCHES)
    surveyed = survey_rows(matches.rows, limited, engine, keep_digests=True)
    given = surveyed.rows, surveyed.survey, scoring
    learned = engine.call("train", train_on_decoys, *given, watched=True)
    set_digests(matches.rows, learned.trained)
    return learned


def _load_model(name: str) -> Answer:
    stored = load_answer(name, read_bytes(name))
    if stored.model.labeled_class != "negative":
        raise UsageError(f"{name}: was not trained on decoys")
    return stored


def _open_matches(settings: MatchSettings, stored: Answer | None) -> MatchRows:
    features = () if stored is None else [c.name for c in stored.model.encoding.columns]
    matches = open_matches(settings.runs, settings.columns, features)
    if clash := sorted({*matches.rows.kept} & {*PERCOLATOR_COLUMNS, *OWN_COLUMNS}):
        raise UsageError(f"{option('keep_columns')}: psms.tsv has a column {clash[0]!r} already")
    return matches
