"""`matches`: peptide-spectrum matches of one or many runs to PSMs, peptides and decoys."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UsageError, option
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..proteomics.experiment import Experiment
    from ..score.model import HonestScorer, ScoreModel, StoredModel
    from ..tables.rows import Rows

MAX_TRAIN_ROWS = 400_000  # several matches of a spectrum say little more than one
SHARDS = ".punoise-runs"  # in the directory of the results while runs are scored
FILTER = "filter on the column q-value; run_q-value is for a run that is reported alone"


@command("matches")
def matches(options: Options, console: Console) -> None:
    """PSMs, peptides and decoys from the matches of a search.

    Takes .pin files, directories or quoted globs of them, with targets and decoys together or in
    files that are named alike but for these two words. One model learns from all runs. Writes
    psms.tsv and peptides.tsv (with --protein-column also proteins.tsv) in Percolator's columns, the
    decoys beside them (decoys.psms.tsv, ...), matches.json, model.punoise and provenance.json into
    DIR. Filter on the column q-value; run_q-value is for a run that is reported alone.

    \b
    punoise matches search.pin --out-dir results
    punoise matches 'runs/*.pin' --by charge --out-dir results
    punoise matches --model results/model.punoise new.pin --out-dir new
    """
    from .. import pipeline
    from ..proteomics.experiment import score_runs, summarize
    from ..proteomics.groups import Grouping
    from ..proteomics.matches import check_decoys
    from ..score.model import StoredModel
    from ..tables.files import document
    from ..tables.writing import (
        OUTPUTS,
        PROVENANCE,
        check_distinct,
        check_target,
        digests,
        make_directory,
        staged,
        write_json,
    )

    out_dir = options.out_dir
    check_distinct([os.path.join(out_dir, name) for name in OUTPUTS], options.runs)
    rows, stored = _open(options)
    grouping = None if options.by is None else Grouping.from_rows(rows, options.by)
    make_directory(out_dir)
    for name in OUTPUTS:
        check_target(os.path.join(out_dir, name))
    shards = os.path.join(out_dir, SHARDS)
    if not options.resume:
        shutil.rmtree(shards, ignore_errors=True)
    make_directory(shards)
    with options.engine(console) as engine, staged(out_dir) as stage:
        folder, trained = str(stage.path), None
        engine.count_rows(rows)
        scorer: HonestScorer | ScoreModel
        if stored is not None:
            scorer = stored.model
        else:
            scoring = options.pick(pipeline.ScoreSettings)
            scoring = replace(scoring, max_train_rows=scoring.max_train_rows or MAX_TRAIN_ROWS)
            trained = pipeline.train(rows, scoring, engine, keep_digests=True)
            console.print_trained(trained)
            scorer = trained.scorer
        found = score_runs(rows, scorer, engine, shards, grouping)
        best = found.levels["psms"].matches
        notices = (
            *(() if trained is None else trained.notices),
            *check_decoys(best, () if trained is None else trained.discriminating),
            *found.notices(),
        )
        with engine.timed("write"):
            found.write(folder, rows, shards)
            write_json(f"{folder}/matches.json", document(summarize(found, rows, notices)))
        if trained is not None:
            model = StoredModel(trained.model, best.sketch())
            pipeline.write_model(model, f"{folder}/model.punoise")
        made_of = pipeline.provenance(
            rows,
            trained,
            options.recorded(affects_results=True),
            {**options.recorded(affects_results=False), "seconds": engine.seconds},
            notices,
        )
        made_of.files = digests(stage.path, OUTPUTS)
        write_json(f"{folder}/{PROVENANCE}", document(made_of))
        files = stage.commit(obsolete=stage.earlier_files)
    shutil.rmtree(shards)
    _print(found, console)
    console.say(f"files     {', '.join(files)} in {out_dir}: {FILTER}")
    console.conclude(notices)


def _open(options: Options) -> tuple[Rows, StoredModel | None]:
    """The matches of all runs, and the model if one is given."""
    from .. import pipeline
    from ..proteomics.pin import run_name
    from ..score.model import load_model
    from ..tables.files import read_bytes
    from ..tables.reading import open_tables

    table = open_tables(options.runs, options.input_format, run_name)
    inputs = options.pick(pipeline.Inputs, table=table, by=None, labeled_are="negatives")
    stored = None
    if options.model is not None:
        stored = load_model(options.model, read_bytes(options.model))
        if stored.model.labeled_class != "negative":
            raise UsageError(f"{options.model}: was not trained on decoys")
        features = tuple(column.name for column in stored.model.encoding.columns)
        inputs = replace(inputs, features=features)
    rows = pipeline.open_rows(inputs)
    if not rows.keys:
        columns = f"{option('label_column')} and {option('spectrum_columns')}"
        raise UsageError(f"{table.name}: is not a .pin file; {columns} say what its columns are")
    return rows, stored


def _print(found: Experiment, console: Console) -> None:
    """What was found, in a few lines."""
    runs, spectra = len(found.starts) - 1, int(found.starts[-1])
    console.say(f"runs      {runs}, with {found.rows:,} matches of {spectra:,} spectra")
    for name, level in found.levels.items():
        counts = [f"{level.accepted(rate):,} at {rate:.0%}" for rate in (0.01, 0.05)]
        console.say(f"{name:<9} {', '.join(counts)} FDR")
    if found.is_grouped:
        console.say(f"groups    {', '.join(found.groups)}: q-values and PEPs are within groups")
