"""Rows to scores: `transform`, `train` and `score`."""

from __future__ import annotations

import os
from collections import Counter

from ..errors import InputError, UsageError, option
from .options import Options, command
from .process import Console


@command("transform")
def transform(options: Options, console: Console) -> None:
    """Learn a score that separates labeled from unlabeled rows.

    No row is scored by a model that was trained on it or on its group.

    \b
    punoise transform --labeled labeled.csv --unlabeled unlabeled.csv --out scores.tsv
    punoise transform --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out scores/
    """
    from .. import pipeline
    from ..prior.checks import uncounted
    from ..tables.writing import check_target

    if options.model_out is not None:
        check_target(options.model_out)
    rows = pipeline.open_rows(options.pick(pipeline.Inputs))
    options.check_table_out(rows)
    with options.engine(console) as engine:
        trained = pipeline.train(rows, options.pick(pipeline.ScoreSettings), engine)
        if trained.model.skip_missing:  # or too few scores would be noticed after writing them
            pipeline.score_rows(rows, trained, engine)
        scored = pipeline.score_rows(rows, trained, engine, options.out, options.model_out)
    console.print_score(scored)
    console.conclude((*trained.notices, *uncounted(scored.sketch)))


@command("train")
def train(options: Options, console: Console) -> None:
    """Train a model for scoring files separately.

    The model knows the rows it was trained on: 'score --set' gives each file the scores that
    'transform' would have given its rows.

    \b
    punoise train --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out model.punoise
    punoise score --model model.punoise --table shards/1.parquet --set unlabeled --out 1.parquet
    """
    from .. import pipeline
    from ..prior.checks import rows_in_both
    from ..score.model import StoredModel
    from ..tables.writing import check_target

    check_target(options.out)
    rows = pipeline.open_rows(options.pick(pipeline.Inputs))
    for table in rows.tables:
        names = Counter(os.path.basename(shard.name) for shard in table.shards)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise InputError(f"{table.name}: the files must differ by name: {count} are {name!r}")
    with options.engine(console) as engine:
        trained = pipeline.train(rows, options.pick(pipeline.ScoreSettings), engine)
    pipeline.write_model(StoredModel(trained.model, scorer=trained.scorer), options.out)
    console.print_trained(trained)
    console.conclude((*trained.notices, *rows_in_both(len(trained.scorer.overlap))))


@command("score")
def score(options: Options, console: Console) -> None:
    """Score new rows with a trained model.

    Rows that the model was trained on would get overconfident scores. To score the training tables,
    use --set (or --label-column) and a model written by 'train'.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from .. import pipeline
    from ..prior.checks import missing_scores, training_rows
    from ..scale.engine import is_sharded
    from ..score.model import load_model
    from ..score.scores import WriteScores, write_training_scores
    from ..tables.dialect import Layout
    from ..tables.files import read_bytes
    from ..tables.reading import open_table
    from ..tables.rows import SETS, Rows

    stored = load_model(options.model, read_bytes(options.model)).skipping(options.missing_score)
    scorer = stored.scorer
    if options.label_column is None and options.set_name is None:
        scorer = None  # the rows are new
    elif is_sharded(options.out):
        names = f"{option('set_name')} and {option('label_column')}"
        raise UsageError(f"{names} write one table: 'transform' writes shards")
    elif scorer is None:
        raise UsageError(f"{options.model}: does not know its training rows; use one of 'train'")
    table = open_table(options.table, options.pick(Layout))
    features = [column.name for column in stored.model.encoding.columns]
    rows = Rows.from_tables(
        [table],
        features=features,
        id_columns=options.id_column,
        label_column=options.label_column,
        label_values=pipeline.label_values(options.pick(pipeline.Inputs)),
        group_column=None if scorer is None else scorer.group_column,
        keep=options.keep_columns,
        wanted_by="model",
    )
    options.check_table_out(rows)
    unused = [c for c in rows.tables[0].columns if c not in {*features, *rows.roles}]
    if unused:
        columns = ", ".join(unused)
        console.say(f"punoise: {options.table}: not in the model and left out: {columns}")
    if scorer is not None:
        code = None if options.set_name is None else SETS.index(options.set_name)
        count, missing = write_training_scores(rows, scorer, code, options.threads, options.out)
    else:
        with options.engine(console) as engine:
            sketch = engine.write(WriteScores(stored.model), rows, "score", options.out)
        count, missing = sketch.n_unlabeled + sketch.missing, sketch.missing
        console.warn(training_rows(stored.model.count_seen(rows)))
    console.warn(missing_scores(missing))
    console.detail(f"punoise: {count} rows scored")
