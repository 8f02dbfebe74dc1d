"""Rows to scores: `transform`, `train` and `score`."""

from __future__ import annotations

from ..settings import NewScoresSettings, TrainSettings, TransformSettings
from .options import command, engine_for
from .process import Console


@command("transform", TransformSettings)
def transform(settings: TransformSettings, console: Console) -> None:
    """Learn a score that separates labeled from unlabeled rows.

    No row is scored by a model that was trained on it or on its group.

    \b
    punoise transform --labeled labeled.csv --unlabeled unlabeled.csv --out scores.tsv
    punoise transform --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out scores/
    """
    from ..recipes import steps

    with engine_for(settings.process, console) as engine:
        scored = steps.transform(settings, engine)
    console.print_score(scored)
    console.conclude(scored.notices)


@command("train", TrainSettings)
def train(settings: TrainSettings, console: Console) -> None:
    """Train a model for scoring files separately.

    The model knows the rows it was trained on: 'score --set' gives each file the scores that
    'transform' would have given its rows.

    \b
    punoise train --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out model.punoise
    punoise score --model model.punoise --table shards/1.parquet --set unlabeled --out 1.parquet
    """
    from ..recipes import steps

    with engine_for(settings.process, console) as engine:
        trained = steps.train_model(settings.inputs, settings.scoring, engine, settings.out)
    console.print_trained(trained)
    console.conclude(trained.notices)


@command("score", NewScoresSettings)
def score(settings: NewScoresSettings, console: Console) -> None:
    """Score new rows with a trained model.

    Rows that the model was trained on would get overconfident scores. To score the training tables,
    use --set (or --label-column) and a model written by 'train'.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from ..recipes import steps

    with engine_for(settings.process, console) as engine:
        scored = steps.score(settings.new, engine, settings.out, settings.sketch_out)
    if scored.unused:
        columns = ", ".join(scored.unused)
        console.say(f"punoise: {settings.new.table}: not in the model and left out: {columns}")
    console.warn(scored.notices)
    console.detail(f"punoise: {scored.rows} rows scored")
