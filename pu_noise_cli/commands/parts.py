"""Large tables in parts: `score`, `sketch` and `merge-sketches`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..console import Console
from ..errors import InputError, UsageError
from ..parameters import Common, argument, command, joined, option, reads, writes
from ..shard_options import ShardsOptions
from ..table_options import CarriedColumns, InputFormat, LabelValues, MissingScore

if TYPE_CHECKING:
    from ..sketch import Sketch


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ShardsOptions, CarriedColumns, InputFormat, MissingScore, LabelValues):
    model: str = reads(
        "--model", "MODEL", "What 'run', 'transform' or 'train' wrote.", required=True
    )
    table: str = reads("--table", "FILE", "The rows to score.", required=True)
    set_name: str | None = option(
        "--set",
        "Input",
        "The table is, or is a file of, this one of the tables that 'train' read.",
        type=click.Choice(["labeled", "unlabeled", "negative"]),
    )
    label_column: str | None = option(
        "--label-column",
        "Input",
        "The same, where 'train' read one --table of both.",
        metavar="NAME",
    )
    out: str = writes(
        "--out", "SCORES", "Table to write; DIR/ for shards, from Parquet files.", required=True
    )


@command(ScoreOptions)
def score(given: ScoreOptions, console: Console) -> None:
    """Score new rows with a trained model.

    A row that the model was trained on would get an overconfident score: for the tables of the
    training use --set (or --label-column) and a model that 'train' wrote.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from ..diagnosis import missing_scores
    from ..engine import open_engine
    from ..files import read_bytes
    from ..pin_tables import PinRoles
    from ..rows import Rows
    from ..scores import WriteScores, write_training_scores
    from ..sketch import SETS
    from ..transform.store import load_model

    if given.label_column is not None and given.set_name is not None:
        raise UsageError("give either --set or --label-column, not both")
    stored = load_model(given.model, read_bytes(given.model)).skipping(given.skip_missing)
    known = given.label_column is not None or given.set_name is not None
    if known and given.out.endswith("/"):
        raise UsageError("--set and --label-column write one table: 'transform' writes shards")
    if known and stored.scorer is None:
        raise UsageError(f"{given.model}: does not know its training rows; 'train' writes one")
    table = given.open_table(given.table)
    features = [column.name for column in stored.model.encoding.columns]
    is_pin = table.shards[0].format.kind == "pin"
    known_ids = (PinRoles.of(table.name, table.columns).id,) if is_pin else ()
    rows = Rows.matched(
        [table],
        features=features,
        id_columns=joined(given.id_column) or known_ids,
        label_column=given.label_column,
        label_values=given.label_values(given.label_column),
        group_column=stored.scorer.group_column if known and stored.scorer else None,
        keep=joined(given.keep_columns),
        wanted_by="the model",
    )
    given.check_table_out(given.out, rows)
    used = {*features, *rows.roles}
    extra = [column for column in table.columns if column not in used]
    if extra:
        console.say(f"punoise: {table.name}: not in the model and left out: {', '.join(extra)}")
    if known and stored.scorer is not None:
        of = None if given.set_name is None else SETS.index(given.set_name)
        count, missing = write_training_scores(rows, stored.scorer, of, given.threads, given.out)
    else:
        with open_engine(given.dask, given.threads, console, given.resume) as engine:
            step = WriteScores(stored.model)
            sketch = engine.write(step, rows, "score", given.out).sketch
        count, missing = sketch.n_unlabeled + sketch.missing, sketch.missing
    console.warn(missing_scores(missing))
    console.detail(f"punoise: {count} rows scored")


@dataclass(frozen=True, kw_only=True)
class SketchOptions(Common):
    scores: str = reads("--scores", "SCORES", "Scores with the column 'set'.", required=True)
    out: str = writes("--out", "SKETCH", "Where the sketch goes.", required=True)


@command(SketchOptions)
def sketch(given: SketchOptions, console: Console) -> None:
    """Condense scores into a small file that can be merged.

    It is all that estimate-prior and the calibration of posterior need. Sketches of the parts of a
    table, merged in any order, give exactly the sketch of the whole.

    \b
    punoise sketch --scores scores/1.parquet --out 1.sketch
    punoise estimate-prior --sketch 1.sketch 2.sketch 3.sketch --out prior.json
    """
    from ..outputs import check_target
    from ..scores import Scores

    check_target(given.out)
    scored = Scores.open(given.scores)
    with console.rows("sketch", scored.rows.num_rows) as done:
        _write_sketch(scored.sketch(done), given.out)


@dataclass(frozen=True, kw_only=True)
class MergeSketchesOptions(Common):
    sketches: tuple[str, ...] = argument(nargs=-1, required=True, reads=True, metavar="SKETCH...")
    out: str = writes("--out", "SKETCH", "Where the merged sketch goes.", required=True)


@command(MergeSketchesOptions, "merge-sketches")
def merge_sketches(given: MergeSketchesOptions, console: Console) -> None:
    """Merge the sketches of parts into the sketch of all rows.

    \b
    punoise merge-sketches sketches/*.sketch --out all.sketch
    """
    from ..outputs import check_target

    check_target(given.out)
    _write_sketch(merged(given.sketches, enough=False), given.out)


def merged(names: Sequence[str], enough: bool = True) -> Sketch:
    """The sketch of all rows that the sketches in some files were made of.

    `enough` says that it is to be estimated from.
    """
    from ..archive import check_rows, load_sketch
    from ..files import read_bytes
    from ..sketch import Sketch
    from ..transform.training import check_sizes

    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("a sketch is named twice, and its rows would count twice")
    parts = [load_sketch(name, read_bytes(name)) for name in names]
    try:
        check_rows(*parts)
    except ValueError as error:
        raise InputError(f"{names[0]} and the other sketches: {error}") from error
    merged = Sketch.merge(parts)
    if enough:
        check_sizes(names[0], merged.counts.sum(0), merged.missing)
    return merged


def _write_sketch(sketch: Sketch, out: str) -> None:
    from ..archive import save_sketch
    from ..outputs import write_atomically

    with write_atomically(out) as file:
        save_sketch(sketch, file)
