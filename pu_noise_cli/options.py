"""Options that several commands share, each group applied by one decorator, and what they mean."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .errors import UsageError

if TYPE_CHECKING:
    from .estimators import Settings
    from .posterior import PriorShares
    from .rows import Rows
    from .transform.scoring import TransformSettings

Command = TypeVar("Command", bound=Callable[..., Any])


class LazyChoice(click.Choice):  # type: ignore[type-arg]
    """A choice among names that are loaded when first needed, as loading them takes numpy."""

    def __init__(self, load: Callable[[], Iterable[str]]) -> None:
        self.load, self.case_sensitive = load, True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.load())


def _methods() -> Iterable[str]:
    from .estimators import ESTIMATORS

    return [*ESTIMATORS, "all"]


def _classifiers() -> Iterable[str]:
    from .transform import CLASSIFIERS

    return CLASSIFIERS


def _calibrators() -> Iterable[str]:
    from .posterior import CALIBRATORS

    return CALIBRATORS


class FileName(click.ParamType):  # type: ignore[type-arg]
    """A text that names a file, which the shell can complete."""

    name = "text"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(incomplete, type="file")]


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; the option may also be repeated."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = next(csv.reader([value], skipinitialspace=True))  # '"a,b",c' are two names
        return tuple(name.strip() for name in names if name.strip())


def joined(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of a repeated NameList option."""
    return tuple(name for names in lists for name in names)


def available_cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _group(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


class Finite(click.FloatRange):
    """A number in a range, where neither infinity nor what is no number is one."""

    name = "number"

    def _describe_range(self) -> str:
        return "any" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


NUMBER = Finite()
SHARE = Finite(0, 1)
INNER_SHARE = Finite(0, 1, min_open=True, max_open=True)
strict_option = click.option(
    "--strict", is_flag=True, help="Exit with 4, after writing, if there is any warning."
)
on_failure_option = click.option(
    "--on-failure",
    type=click.Choice(["exit", "write"]),
    default="exit",
    show_default=True,
    help="If input or estimation fails: exit with 3 or 4, or write why and exit with 0.",
)

table_options = _group(
    click.option("--labeled", metavar="FILE", help="Table of labeled positives."),
    click.option("--unlabeled", metavar="FILE", help="Table of unlabeled rows."),
    click.option("--table", metavar="FILE", help="One table of both, with --label-column."),
    click.option(
        "--label-column",
        metavar="NAME",
        help="Column of --table that says which rows are labeled: 1/0, true/false, yes/no or "
        "labeled/unlabeled.",
    ),
)
column_options = _group(
    click.option(
        "--id-column",
        metavar="NAME",
        help="Column of row ids, kept as written; else rows are numbered.",
    ),
    click.option(
        "--group-column",
        metavar="NAME",
        help="Rows of one group are never split between training and scoring.",
    ),
    click.option(
        "--features",
        type=NameList(),
        multiple=True,
        metavar="A,B,...",
        help="Feature columns; by default all but the id, group, label and dropped ones.",
    ),
    click.option(
        "--drop-columns",
        type=NameList(),
        multiple=True,
        metavar="A,B,...",
        help="Columns to ignore.",
    ),
    click.option(
        "--na", multiple=True, metavar="TEXT", help="Another text for a missing value (repeat)."
    ),
    click.option(
        "--categorical",
        type=NameList(),
        multiple=True,
        metavar="A,B,...",
        help="Read these columns as categories, whatever they look like.",
    ),
)
transform_options = _group(
    click.option(
        "--transform/--no-transform",
        "transform",
        default=None,
        help="Learn a score from the features, or use the one numeric column as the score. By "
        "default a single numeric column is the score and anything else is transformed.",
    ),
    click.option("--score-column", metavar="NAME", help="Use this column as the score."),
    click.option(
        "--lower-is-positive",
        is_flag=True,
        help="Low values of the score column mean positive; it is written with the opposite sign.",
    ),
    click.option(
        "--classifier",
        type=LazyChoice(_classifiers),
        default="networks",
        show_default=True,
        help="What learns the score.",
    ),
    click.option(
        "--max-train-rows",
        type=click.IntRange(100),
        default=100_000,
        show_default=True,
        help="Train on a sample of at most so many rows; all rows are scored.",
    ),
)
prior_options = _group(
    click.option(
        "--method",
        type=LazyChoice(_methods),
        default="auto",
        show_default=True,
        help="How to estimate; 'all' runs every method and answers with auto's.",
    ),
    click.option(
        "--beta",
        type=SHARE,
        help="Share of true positives among the labeled rows, if known; it is then held fixed.",
    ),
    click.option(
        "--elkan-noto-estimator",
        type=click.Choice(["e1", "e2", "e3"]),
        default="e1",
        show_default=True,
        help="Which of Elkan and Noto's estimators.",
    ),
    click.option(
        "--elbow",
        type=click.Choice(["robust", "authors"]),
        default="robust",
        show_default=True,
        help="How AlphaMax finds the elbow: robustly, or as its authors do, for comparison.",
    ),
    click.option("--sample", metavar="NAME", help="Sample name to put into the JSON."),
    strict_option,
    on_failure_option,
)
prior_source_options = _group(
    click.option("--prior", metavar="PRIOR.json", help="What 'estimate-prior' wrote."),
    click.option("--alpha", type=SHARE, help="Your own alpha, instead of --prior."),
    click.option("--beta", type=SHARE, help="Your own beta, with --alpha; by default 1."),
    click.option(
        "--calibrator",
        type=LazyChoice(_calibrators),
        default="isotonic",
        show_default=True,
        help="How scores become tau, the probability of being labeled.",
    ),
)
dask_option = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Work on the Dask cluster whose scheduler has this address or wrote this file; it reads "
    "and writes Parquet shards.",
)
shards_options = _group(
    dask_option,
    click.option(
        "--resume",
        is_flag=True,
        help="Keep the shards that an interrupted run of the same command has finished.",
    ),
)
common_options = _group(
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Seed of all random numbers.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1),
        envvar="PUNOISE_THREADS",
        default=available_cores,
        help="Default: PUNOISE_THREADS, else the cores this process may use.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Only errors on stderr."),
    click.option("-v", "--verbose", is_flag=True, help="More on stderr."),
)


def open_rows(given: dict[str, Any]) -> Rows:
    """The rows that --labeled and --unlabeled, or --table, name."""
    from .rows import Rows
    from .tables import open_table

    pair = (given["labeled"], given["unlabeled"])
    if given["table"] is not None:
        if pair != (None, None):
            raise UsageError("give either --table, or --labeled and --unlabeled, not both")
        if given["label_column"] is None:
            raise UsageError("--table needs --label-column")
        tables = [open_table(given["table"])]
    else:
        if None in pair:
            raise UsageError("give --labeled and --unlabeled, or --table and --label-column")
        if given["label_column"] is not None:
            raise UsageError("--label-column goes with --table")
        if pair == ("-", "-"):
            raise UsageError("only one table can come from standard input")
        tables = [open_table(name) for name in pair]
    features = joined(given["features"])
    if given["score_column"] is not None:
        if features or given["transform"]:
            raise UsageError("--score-column goes with neither --features nor --transform")
        features = (given["score_column"],)
    return Rows.matched(
        tables,
        features=features,
        drop=joined(given["drop_columns"]),
        id_column=given["id_column"],
        group_column=given["group_column"],
        label_column=given["label_column"],
    )


def check_table_out(given: dict[str, Any], rows: Rows) -> None:
    """Stop, before any work is done, where --out cannot be a table or a directory of shards."""
    from .outputs import check_table_target
    from .shards import check_sharded_target, is_sharded

    if is_sharded(given["out"]):
        check_sharded_target(given["out"], rows)
        return
    for option in ("dask", "resume"):
        if given.get(option):
            raise UsageError(f"--{option} goes with shards: let the name after --out end in '/'")
    check_table_target(given["out"])


def check_dask(given: dict[str, Any], rows: Rows) -> None:
    """Stop where --dask is to read what workers cannot share among them."""
    from .shards import check_parquet

    if given["dask"] is not None:
        check_parquet(rows, f"--dask {given['dask']}")


def transform_settings(given: dict[str, Any]) -> TransformSettings:
    """What the user has fixed about the transform."""
    from .transform.scoring import TransformSettings

    as_score = given["score_column"] is not None
    return TransformSettings(
        classifier=given["classifier"],
        train=False if as_score else given["transform"],
        lower_is_positive=given["lower_is_positive"],
        max_train_rows=given["max_train_rows"],
        na=given["na"],
        categorical=joined(given["categorical"]),
        seed=given["seed"],
        threads=given["threads"],
    )


def estimation_settings(given: dict[str, Any]) -> Settings:
    """What the user has fixed about the estimation."""
    from .estimators import Settings

    return Settings(given["beta"], given["seed"], given["elkan_noto_estimator"], given["elbow"])


def own_or_estimated_prior(given: dict[str, Any]) -> PriorShares:
    """α and β from --prior, or the user's own."""
    from .posterior import PriorShares
    from .prior import prior_shares
    from .tables import read_json

    if (given["prior"] is None) == (given["alpha"] is None):
        raise UsageError("give either --prior, or --alpha (and --beta)")
    if given["prior"] is not None:
        if given["beta"] is not None:
            raise UsageError("--beta goes with --alpha; --prior has its own")
        return prior_shares(given["prior"], read_json(given["prior"]))
    alpha, beta = given["alpha"], 1.0 if given["beta"] is None else given["beta"]
    if alpha >= beta:
        raise UsageError(f"--alpha {alpha} must be below --beta {beta}")
    return PriorShares(alpha, beta, estimated=False)
