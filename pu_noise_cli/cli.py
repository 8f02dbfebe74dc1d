"""The commands: each reads, makes one call, writes. Heavy imports are made inside them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from . import __version__
from .console import Console
from .errors import (
    ClosedPipe,
    EstimationError,
    InputError,
    Notice,
    PunoiseError,
    StrictError,
    UsageError,
)
from .options import (
    INNER_SHARE,
    NUMBER,
    SHARE,
    FileName,
    check_dask,
    check_table_out,
    column_options,
    common_options,
    dask_option,
    estimation_settings,
    on_failure_option,
    open_rows,
    own_or_estimated_prior,
    prior_options,
    prior_source_options,
    shards_options,
    strict_option,
    table_options,
    transform_options,
    transform_settings,
)

if TYPE_CHECKING:
    from .prior import Prior
    from .sketch import Sketch

OF_TABLES = (
    *("labeled", "unlabeled", "table", "label_column", "id_column", "group_column", "features"),
    *("drop_columns", "na", "categorical", "transform", "score_column", "lower_is_positive"),
    *("classifier", "max_train_rows"),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Class priors and posteriors from noisy positives and unlabeled rows.

    Given a table of labeled positives, some of them wrong, and a table of unlabeled rows, punoise
    estimates the share of positives among the unlabeled (alpha) and among the labeled rows (beta),
    and for each row the probability that it is positive.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """


@cli.command()
@table_options
@column_options
@click.option("--out-dir", required=True, metavar="DIR", help="Directory for the results.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "tsv", "csv"]),
    default="parquet",
    show_default=True,
    help="Format of the tables.",
)
@click.option(
    "--shards",
    is_flag=True,
    help="Write scores/ and posterior/ with a Parquet file for each input file; --dask implies it.",
)
@shards_options
@transform_options
@prior_options
@common_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Scores, prior, posteriors and report in one go.

    Writes scores, prior.json, posterior, model.punoise, report.html and provenance.json into DIR.
    Nothing there changes unless all steps succeed, except shards, which are written in place.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """
    from . import runs
    from .engine import open_engine
    from .outputs import check_distinct, make_directory, new_directory, write_json
    from .work import Work

    console = _start(given)
    out_dir = given["out_dir"]
    sharded = given["shards"] or given["dask"] is not None
    if given["resume"] and not sharded:
        raise UsageError("--resume goes with --shards")
    if sharded and given["table_format"] != "parquet":
        raise UsageError(f"--format {given['table_format']}: shards are Parquet files")
    check_distinct([os.path.join(out_dir, name) for name in runs.OUTPUTS], _inputs(given))
    settings = runs.RunSettings(
        transform_settings(given),
        estimation_settings(given),
        method=given["method"],
        sample=given["sample"],
        table_format=given["table_format"],
        options={name: value for name, value in ctx.params.items() if value not in (None, ())},
    )
    try:
        rows = open_rows(given)
        with (
            new_directory(out_dir),
            open_engine(given["dask"], given["threads"]) as engine,
        ):
            runs.check_targets(out_dir, rows if sharded else None)
            work = Work(console, engine, given["resume"])
            steps = runs.run_sharded if sharded else runs.run
            result = steps(rows, settings, work, out_dir)
    except (InputError, EstimationError) as error:
        failed = _failed_prior(given, error, console)
        make_directory(out_dir)
        write_json(os.path.join(out_dir, "prior.json"), failed.as_json())
        runs.remove_other_outputs(out_dir, keep=["prior.json"])
        _check_strict(given, *failed.notices)
        return
    _report(result.prior, result.calibration.sketch, console)
    sure = result.calibration.sketch.unlabeled[result.calibration.posterior >= 0.5].sum()
    console.say(f"calls  {sure} unlabeled rows have a posterior of at least 0.5")
    console.say(f"files  {', '.join(result.files)} in {out_dir}")
    console.warn(result.calibration.notices)
    _check_strict(given, *result.notices)


@cli.command()
@table_options
@column_options
@click.option("--out", required=True, metavar="SCORES", help="Table to write; DIR/ for shards.")
@click.option("--model-out", metavar="MODEL", help="Where the trained model goes, for 'score'.")
@shards_options
@transform_options
@strict_option
@common_options
def transform(**given: Any) -> None:
    """Score each row: how much it looks like a labeled one.

    The score is that of a classifier of labeled against unlabeled rows. No row is scored by a model
    that was trained on it or on its group.

    \b
    punoise transform --labeled labeled.csv --unlabeled unlabeled.csv --out scores.tsv
    punoise transform --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out scores/
    """
    from . import pipeline
    from .engine import open_engine
    from .outputs import check_distinct, check_target
    from .work import Work

    console = _start(given)
    if given["model_out"] is not None:
        check_target(given["model_out"])
    check_distinct([given["out"], given["model_out"]], _inputs(given))
    rows, settings = open_rows(given), transform_settings(given)
    check_table_out(given, rows)
    with open_engine(given["dask"], given["threads"]) as engine:
        work = Work(console, engine, given["resume"])
        _, trained = pipeline.transform(rows, settings, work, given["out"], given["model_out"])
    _check_strict(given, *trained.notices)


@cli.command()
@table_options
@column_options
@click.option("--out", required=True, metavar="MODEL", help="Where the trained model goes.")
@transform_options
@strict_option
@common_options
def train(**given: Any) -> None:
    """Train a model only, to score files one by one.

    The model knows the rows it was trained on: 'score --set' gives each file the scores that
    'transform' would have given its rows.

    \b
    punoise train --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out model.punoise
    punoise score --model model.punoise --table shards/1.parquet --set unlabeled --out 1.parquet
    """
    from . import pipeline
    from .outputs import check_distinct, check_target

    console = _start(given)
    check_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    rows = open_rows(given)
    trained = pipeline.train_model(rows, transform_settings(given), console, given["out"])
    _check_strict(given, *trained.notices)


@cli.command()
@click.option(
    "--model", required=True, metavar="MODEL", help="What 'run', 'transform' or 'train' wrote."
)
@click.option("--table", required=True, metavar="FILE", help="The rows to score.")
@click.option("--id-column", metavar="NAME", help="Row ids, kept as written.")
@click.option("--out", required=True, metavar="SCORES", help="Table to write; DIR/ for shards.")
@click.option(
    "--set",
    "set_name",
    type=click.Choice(["labeled", "unlabeled"]),
    help="The table is, or is a file of, this one of the tables that 'train' read.",
)
@click.option(
    "--label-column", metavar="NAME", help="The same, where 'train' read one --table of both."
)
@shards_options
@common_options
def score(**given: Any) -> None:
    """Score new rows by a model already trained.

    A row that the model was trained on would get too sure a score: for the tables of the training
    use --set (or --label-column) and a model that 'train' wrote.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from . import pipeline
    from .engine import open_engine
    from .outputs import check_distinct
    from .rows import Rows
    from .tables import open_table, read_bytes
    from .transform.store import load_model
    from .work import Work

    console = _start(given)
    check_distinct([given["out"]], _inputs(given))
    label_column, set_name = given["label_column"], given["set_name"]
    if label_column is not None and set_name is not None:
        raise UsageError("give either --set or --label-column, not both")
    stored = load_model(given["model"], read_bytes(given["model"]))
    known = label_column is not None or set_name is not None
    if known and given["out"].endswith("/"):
        raise UsageError("--set and --label-column write one table: 'transform' writes shards")
    if known and stored.scorer is None:
        raise UsageError(f"{given['model']}: does not know its training rows; 'train' writes one")
    table = open_table(given["table"])
    features = [column.name for column in stored.model.encoding.columns]
    rows = Rows.matched(
        [table],
        features=features,
        id_column=given["id_column"],
        label_column=label_column,
        group_column=stored.scorer.group_column if known and stored.scorer else None,
        wanted_by="the model",
    )
    check_table_out(given, rows)
    extra = [c for c in table.columns if c not in features and c not in rows.roles]
    if extra:
        console.say(f"punoise: {table.name}: not in the model and left out: {', '.join(extra)}")
    if known and stored.scorer is not None:
        labeled = None if set_name is None else set_name == "labeled"
        count = pipeline.score_training_rows(
            rows, stored.scorer, labeled, given["threads"], given["out"]
        )
    else:
        with open_engine(given["dask"], given["threads"]) as engine:
            work = Work(console, engine, given["resume"])
            count = pipeline.score(rows, stored.model, work, given["out"])
    console.detail(f"punoise: {count} rows scored")


@cli.command()
@click.option("--scores", required=True, metavar="SCORES", help="Scores with the column 'set'.")
@click.option("--out", required=True, metavar="SKETCH", help="Where the sketch goes.")
@common_options
def sketch(**given: Any) -> None:
    """Sum up scores in a small file that can be merged.

    It is all that estimate-prior and the calibration of posterior need. Sketches of the parts of a
    table, merged in any order, give exactly the sketch of the whole.

    \b
    punoise sketch --scores scores/1.parquet --out 1.sketch
    punoise estimate-prior --sketch 1.sketch 2.sketch 3.sketch --out prior.json
    """
    from . import pipeline
    from .outputs import check_distinct, check_target
    from .steps import ScoredRows, sketch_of

    console = _start(given)
    check_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    scored = ScoredRows.open(given["scores"])
    with console.rows("sketch", scored.rows.num_rows) as done:
        pipeline.write_sketch(sketch_of(scored, done), given["out"])


@cli.command("merge-sketches")
@click.argument("sketches", nargs=-1, required=True, metavar="SKETCH...")
@click.option("--out", required=True, metavar="SKETCH", help="Where the merged sketch goes.")
@common_options
def merge_sketches(sketches: Sequence[str], **given: Any) -> None:
    """Merge the sketches of parts into the sketch of all rows.

    \b
    punoise merge-sketches sketches/*.sketch --out all.sketch
    """
    from . import pipeline
    from .outputs import check_distinct, check_target

    _start(given)
    check_target(given["out"])
    check_distinct([given["out"]], sketches)
    pipeline.write_sketch(pipeline.merged_sketch(sketches), given["out"])


@cli.command("estimate-prior")
@click.option(
    "--scores", metavar="SCORES", help="What 'transform' wrote, or your own: id, set, score."
)
@click.option("--sketch", "sketches", multiple=True, metavar="SKETCH", help="What 'sketch' wrote.")
@click.argument("more_sketches", nargs=-1, metavar="[SKETCH]...")
@table_options
@column_options
@click.option("--out", default="-", metavar="PRIOR.json", help="By default standard output.")
@dask_option
@transform_options
@prior_options
@common_options
@click.pass_context
def estimate_prior(ctx: click.Context, /, **given: Any) -> None:
    """Estimate alpha and beta from scores, sketches or tables.

    \b
    punoise estimate-prior --scores scores.tsv --out prior.json
    punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv
    """
    from .outputs import check_distinct, check_target, write_json

    console = _start(given)
    check_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    try:
        prior, sketch = _prior(ctx, console)
    except (InputError, EstimationError) as error:
        failed = _failed_prior(given, error, console)
        write_json(given["out"], failed.as_json())
        _check_strict(given, *failed.notices)
        return
    write_json(given["out"], prior.as_json())
    _report(prior, sketch, console)
    if console.on_terminal and given["out"] != "-":
        console.say(f"files  {given['out']}")
    _check_strict(given, *prior.notices)


@cli.command()
@click.option(
    "--scores", required=True, metavar="SCORES", help="What 'transform' or 'score' wrote."
)
@prior_source_options
@click.option("--out", required=True, metavar="POSTERIOR", help="Table to write; DIR/ for shards.")
@click.option(
    "--model",
    metavar="MODEL",
    help="For new rows, scored by 'score': calibrate by the rows MODEL was trained on.",
)
@click.option(
    "--sketch",
    metavar="SKETCH",
    help="For a part of the scores, or for new ones: calibrate by this sketch of all.",
)
@click.option("--bounds", is_flag=True, help="Add one-sided 95 % bounds on the posterior.")
@click.option("--fdr", type=SHARE, help="Add a column 'call': true where the fdr is at most this.")
@click.option(
    "--evidence",
    metavar="acmg|FILE",
    help="Add the evidence strength that the bounds support, by the ACMG's rules or your own.",
)
@click.option(
    "--target-alpha",
    type=INNER_SHARE,
    help="Give posterior and fdr for a population with this share of positives.",
)
@shards_options
@strict_option
@common_options
def posterior(**given: Any) -> None:
    """For each row the probability that it is positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from . import pipeline
    from .engine import open_engine
    from .evidence import levels
    from .outputs import check_distinct
    from .posterior import calibrate
    from .steps import ScoredRows, WritePosterior
    from .tables import read_rule
    from .work import Work

    console = _start(given)
    check_distinct([given["out"]], _inputs(given))
    if given["model"] is not None and given["sketch"] is not None:
        raise UsageError("give either --model or --sketch, not both")
    prior = own_or_estimated_prior(given)
    target = given["target_alpha"]
    rule = []
    if given["evidence"] is not None:
        population = prior.alpha if target is None else target
        rule = levels(given["evidence"], read_rule(given["evidence"]), population)
    scored = ScoredRows.open(
        given["scores"], with_set=None if given["sketch"] is not None else given["model"] is None
    )
    check_table_out(given, scored.rows)
    with open_engine(given["dask"], given["threads"]) as engine:
        work = Work(console, engine, given["resume"])
        sketch = pipeline.calibration_sketch(scored, given["model"], given["sketch"], work)
        calibration = calibrate(sketch, prior, given["calibrator"])
        request = pipeline.PosteriorRequest(
            given["bounds"], given["fdr"], rule, target, given["calibrator"], given["seed"]
        )
        columns = pipeline.posterior_columns(calibration, request)
        step = WritePosterior(sketch, columns)
        found = pipeline.posterior(scored, step, work, given["out"])
    if given["fdr"] is not None:
        called = found.unlabeled[columns["call"]].sum()
        console.say(f"calls  {called} unlabeled rows have an fdr of at most {given['fdr']}")
    for level in sorted(rule, key=lambda level: -level.lr):
        rows = found.unlabeled[columns["evidence"] == level.name].sum()
        console.say(f"{rows:>9}  {level.name} (posterior {level.posterior:.4g})")
    console.warn(calibration.notices)
    _check_strict(given, *calibration.notices)


@cli.command()
@click.option("--scores", required=True, metavar="SCORES", help="Scores that 'transform' wrote.")
@prior_source_options
@click.option(
    "--threshold",
    type=NUMBER,
    multiple=True,
    help="Call rows from this score up (repeat); by default from every score there is.",
)
@click.option(
    "--out",
    default="-",
    metavar="FILE",
    help="JSON or a table, by its name; by default JSON on standard output.",
)
@strict_option
@common_options
def performance(**given: Any) -> None:
    """How good the score is at telling positives from negatives.

    Precision, recall and the like on the population of the unlabeled rows, though none of their
    classes is known, with 95 % intervals.

    \b
    punoise performance --scores scores.tsv --prior prior.json --threshold 0.5 --out perf.json
    """
    from . import pipeline
    from .engine import Local
    from .outputs import check_distinct, check_table_target, check_target, is_json
    from .posterior import calibrate
    from .steps import ScoredRows
    from .work import Work

    console = _start(given)
    (check_target if is_json(given["out"]) else check_table_target)(given["out"])
    check_distinct([given["out"]], _inputs(given))
    prior = own_or_estimated_prior(given)
    scored = ScoredRows.open(given["scores"])
    sketch = pipeline.sketch_scores(scored, Work(console, Local(given["threads"])))
    calibration = calibrate(sketch, prior, given["calibrator"])
    auc = pipeline.performance(
        calibration, given["calibrator"], given["threshold"], given["seed"], given["out"]
    )
    console.say(f"AUC    {auc}  positives against negatives")
    console.warn(calibration.notices)
    _check_strict(given, *calibration.notices)


@cli.command()
@click.argument("priors", nargs=-1, required=True, metavar="PRIOR.json...")
@click.option(
    "--out", default="-", metavar="TABLE", help="By default tab-separated on standard output."
)
@click.option(
    "--multiqc",
    metavar="NAME_mqc.json",
    help="Also write what 'multiqc' shows in its general statistics.",
)
@common_options
def summarize(priors: Sequence[str], **given: Any) -> None:
    """One table of the priors of many samples.

    A sample whose estimation failed (--on-failure write) is listed with the reason.

    \b
    punoise summarize results/*/prior.json --out summary.tsv --multiqc punoise_mqc.json
    """
    from .outputs import check_distinct, check_table_target, check_target, table_writer, write_json
    from .summarize import SCHEMA, as_batch, multiqc_content
    from .summarize import summarize as gather
    from .tables import read_json

    _start(given)
    check_table_target(given["out"])
    if given["multiqc"] is not None:
        if not given["multiqc"].endswith("_mqc.json"):
            raise UsageError(f"--multiqc {given['multiqc']}: the name must end in _mqc.json")
        check_target(given["multiqc"])
    check_distinct([given["out"], given["multiqc"]], priors)
    rows = gather((name, read_json(name)) for name in priors)
    with table_writer(given["out"], SCHEMA) as write:
        write(as_batch(rows))
    if given["multiqc"] is not None:
        write_json(given["multiqc"], multiqc_content(rows))


@cli.command()
@click.option("--scores", metavar="SCORES", help="Scores that 'transform' wrote; for one prior.")
@click.option(
    "--prior",
    "priors",
    multiple=True,
    metavar="PRIOR.json",
    help="What 'estimate-prior' wrote; several, without --scores, to compare samples.",
)
@click.argument("more_priors", nargs=-1, metavar="[PRIOR.json]...")
@click.option("--posterior", metavar="POSTERIOR", help="What 'posterior' wrote from SCORES.")
@click.option("--provenance", metavar="FILE", help="The provenance.json of a run, to be shown.")
@click.option("--out", required=True, metavar="REPORT.html", help="Where the report goes.")
@click.option("--figures", metavar="DIR", help="Also write the charts there, as SVG and PNG.")
@on_failure_option
@strict_option
@common_options
def report(priors: Sequence[str], more_priors: Sequence[str], **given: Any) -> None:
    """One HTML file with the answer and the charts behind it.

    With several priors it compares the samples.

    \b
    punoise report --scores scores.tsv --prior prior.json --out report.html
    punoise report --prior a.json b.json c.json --out samples.html --figures figures
    """
    from .outputs import check_distinct, check_target, make_directory, write_figures, write_text
    from .report import figures
    from .report.sources import report_of

    console = _start(given)
    names = (*priors, *more_priors)
    sources = {name: given[name] for name in ("scores", "posterior", "provenance")}
    if not names:
        raise UsageError("give at least one --prior")
    if given["scores"] is None and any(sources.values()):
        raise UsageError("--posterior and --provenance go with --scores")
    if given["scores"] is not None and len(names) > 1:
        raise UsageError("--scores goes with one --prior; several priors are compared without it")
    check_target(given["out"])
    check_distinct([given["out"]], [*names, *sources.values()])
    if given["figures"] is not None:
        figures.converter()  # a usage error where it is missing
    found = report_of(names, go_on=given["on_failure"] == "write", **sources)
    if given["figures"] is not None:
        images = figures.images(found.charts)
        make_directory(given["figures"])
        write_figures(given["figures"], images, figures.summary(found.charts))
    write_text(given["out"], found.page)
    console.warn(found.notices)
    _check_strict(given, *found.notices)


@cli.command()
@click.option("--out-dir", required=True, metavar="DIR", help="Directory for the three tables.")
@click.option(
    "--alpha",
    type=SHARE,
    default=0.2,
    show_default=True,
    help="Share of positives among the unlabeled rows.",
)
@click.option(
    "--beta",
    type=SHARE,
    default=0.95,
    show_default=True,
    help="Share of positives among the labeled rows.",
)
@click.option("--n-labeled", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--n-unlabeled", type=click.IntRange(1), default=10000, show_default=True)
@click.option("--n-features", type=click.IntRange(1), default=10, show_default=True)
@common_options
def simulate(**given: Any) -> None:
    """Simulate tables with a known answer.

    Writes labeled.csv, unlabeled.csv and truth.csv.

    \b
    punoise simulate --out-dir simulated --alpha 0.2 --beta 0.95
    """
    from . import pipeline
    from .outputs import make_directory
    from .simulate import simulate as draw

    _start(given)
    make_directory(given["out_dir"])
    names = ("alpha", "beta", "n_labeled", "n_unlabeled", "n_features", "seed")
    pipeline.write_simulation(draw(**{name: given[name] for name in names}), given["out_dir"])


@cli.command()
@click.argument("document", type=click.Choice(["prior"]))
@common_options
def schema(document: str, **given: Any) -> None:
    """Print the JSON Schema of a document that punoise writes.

    \b
    punoise schema prior > prior.schema.json
    """
    from importlib.resources import files

    from .outputs import write_atomically

    with write_atomically("-") as file:
        file.write(files("pu_noise_cli.schemas").joinpath(f"{document}.json").read_bytes())


for _command in cli.commands.values():
    for _parameter in _command.params:
        if _parameter.type is click.STRING and _parameter.metavar not in ("NAME", "TEXT"):
            _parameter.type = FileName()  # the shell completes it


def _start(given: dict[str, Any]) -> Console:
    """Set the threads of the table readers, and make the console."""
    import pyarrow as pa

    pa.set_cpu_count(given["threads"])
    with contextlib.suppress(NotImplementedError):  # not in every build; the others hold on to more
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    return Console(given["quiet"], given["verbose"])


def _inputs(given: dict[str, Any]) -> list[str | None]:
    """The files a command reads, which none of its outputs may replace."""
    names = ("labeled", "unlabeled", "table", "scores", "prior", "model", "sketch", "evidence")
    sketches = (*given.get("sketches", ()), *given.get("more_sketches", ()))
    return [*(given.get(name) for name in names), *sketches]


def _prior(ctx: click.Context, console: Console) -> tuple[Prior, Sketch]:
    """Estimate from --scores, or from tables that are scored on the way."""
    from . import pipeline
    from .engine import open_engine
    from .prior import estimate_prior
    from .steps import ScoredRows
    from .transform.scoring import check_sizes
    from .work import Work

    given = ctx.params
    samples, notices = None, tuple[Notice, ...]()
    sketches = (*given["sketches"], *given["more_sketches"])
    if given["more_sketches"] and not given["sketches"]:
        raise UsageError(
            f"unexpected argument {given['more_sketches'][0]!r}: put --scores or --sketch before it"
        )
    if given["scores"] is not None or sketches:
        if given["scores"] is not None and sketches:
            raise UsageError("give either --scores or --sketch, not both")
        source = "--scores" if given["scores"] is not None else "--sketch"
        for option in OF_TABLES:
            if ctx.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT:
                raise UsageError(
                    f"--{option.replace('_', '-')} goes with tables, not with {source}"
                )
    with open_engine(given["dask"], given["threads"]) as engine:
        work = Work(console, engine)
        if sketches:
            sketch = pipeline.merged_sketch(sketches)
            check_sizes(sketches[0], sketch.n_labeled, sketch.n_unlabeled)
        elif given["scores"] is not None:
            scored = ScoredRows.open(given["scores"])
            check_dask(given, scored.rows)
            sketch = pipeline.sketch_scores(scored, work)
        else:
            rows, transform = open_rows(given), transform_settings(given)
            check_dask(given, rows)
            sketch, trained = pipeline.transform(rows, transform, work)
            notices = trained.notices
            if pipeline.needs_features(given["method"]):
                samples = engine.call(pipeline.feature_samples, rows, trained.model, transform)
    prior = estimate_prior(
        sketch, given["method"], estimation_settings(given), samples, given["sample"]
    )
    return replace(prior, notices=(*notices, *prior.notices)), sketch


def _failed_prior(given: dict[str, Any], error: PunoiseError, console: Console) -> Prior:
    """The prior to write in spite of an error, or the error where none is wanted."""
    from .prior import failed_prior

    if given["on_failure"] != "write":
        raise error
    console.say(f"punoise: warning: no estimate: {error}")
    return failed_prior(given["method"], given["seed"], error, given["sample"])


def _report(prior: Prior, sketch: Sketch, console: Console) -> None:
    """The answer in a few lines on stderr; on a terminal with what the scores look like."""
    console.warn(prior.notices)
    for line in prior.summary():
        console.say(line)
    if console.on_terminal:
        from .report.terminal import BLOCKS, PLAIN_BLOCKS, histogram_lines

        for line in histogram_lines(sketch, BLOCKS if console.has_blocks else PLAIN_BLOCKS):
            console.say(line)


def _check_strict(given: dict[str, Any], *notices: Notice) -> None:
    if given["strict"] and notices:
        codes = ", ".join(notice.code for notice in notices)
        raise StrictError(f"warnings under --strict: {codes}")


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


def _terminate(number: int, _: object) -> NoReturn:
    raise Terminated(number)


class WithoutPandas:
    """Hides pandas from pyarrow, which would import it for 0.3 s and nothing that is used here."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def main() -> NoReturn:
    """Run the command line; every exit code is decided here."""
    sys.meta_path.insert(0, WithoutPandas)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    code = _exit_code(lambda: cli.main(prog_name="punoise", standalone_mode=False))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    # not sys.exit: a thread of Arrow's that still holds a Python callback while the interpreter
    # shuts down aborts the process
    os._exit(code)


def _exit_code(command: Callable[[], Any]) -> int:
    try:
        code = command()
    except ClosedPipe as error:
        return error.exit_code
    except PunoiseError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        message = error.format_message()
        if "unexpected extra argument" in message:
            message += " Quote a pattern: 'shards/*.parquet'."
        return _fail(message, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except Terminated as error:
        return 128 + int(error.args[0])
    return code if isinstance(code, int) else 0


def _fail(message: str, exit_code: int) -> int:
    click.echo(f"punoise: error: {' '.join(message.split())}", err=True)
    return exit_code
