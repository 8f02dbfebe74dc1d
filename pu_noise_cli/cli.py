"""The commands: each reads, makes one call, writes. Heavy imports are made inside them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
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
    column_options,
    common_options,
    estimation_settings,
    open_rows,
    own_or_estimated_prior,
    prior_options,
    prior_source_options,
    strict_option,
    table_options,
    transform_options,
    transform_settings,
)

if TYPE_CHECKING:
    from .prior import Prior

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
@transform_options
@prior_options
@common_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Scores, prior and posteriors in one go.

    Writes scores, prior.json, posterior, model.punoise and provenance.json into DIR. Nothing there
    changes unless all steps succeed.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """
    from . import pipeline
    from .outputs import make_directory, write_json

    console = _start(given)
    out_dir = given["out_dir"]
    try:
        rows = open_rows(given)
        make_directory(out_dir)
        pipeline.check_run_targets(out_dir)
        result = pipeline.run(
            rows,
            transform_settings(given),
            estimation_settings(given),
            method=given["method"],
            sample=given["sample"],
            table_format=given["table_format"],
            options={name: value for name, value in ctx.params.items() if value not in (None, ())},
            console=console,
            out_dir=out_dir,
        )
    except (InputError, EstimationError) as error:
        failed = _failed_prior(given, error, console)
        make_directory(out_dir)
        write_json(os.path.join(out_dir, "prior.json"), failed.as_json())
        pipeline.remove_other_outputs(out_dir, keep=["prior.json"])
        return
    _report(result.prior, console)
    sure = result.calibration.sketch.unlabeled[result.calibration.posterior >= 0.5].sum()
    console.say(f"calls  {sure} unlabeled rows have a posterior of at least 0.5")
    console.say(f"files  {', '.join(result.files)} in {out_dir}")
    console.warn(result.calibration.notices)
    _check_strict(given, *result.notices)


@cli.command()
@table_options
@column_options
@click.option("--out", required=True, metavar="SCORES", help="Where the scores go.")
@click.option("--model-out", metavar="MODEL", help="Where the trained model goes, for 'score'.")
@transform_options
@strict_option
@common_options
def transform(**given: Any) -> None:
    """Score each row by a classifier of labeled against unlabeled rows.

    No row is scored by a model that was trained on it or on its group.

    \b
    punoise transform --labeled labeled.csv --unlabeled unlabeled.csv --out scores.tsv
    """
    from . import pipeline
    from .outputs import check_distinct, check_table_target, check_target

    console = _start(given)
    check_table_target(given["out"])
    if given["model_out"] is not None:
        check_target(given["model_out"])
    check_distinct([given["out"], given["model_out"]], _inputs(given))
    trained = pipeline.transform(
        open_rows(given), transform_settings(given), console, given["out"], given["model_out"]
    )
    _check_strict(given, *trained.notices)


@cli.command()
@click.option("--model", required=True, metavar="MODEL", help="A model that 'transform' wrote.")
@click.option("--table", required=True, metavar="FILE", help="The rows to score.")
@click.option("--id-column", metavar="NAME", help="Row ids, kept as written.")
@click.option("--out", required=True, metavar="SCORES", help="Where the scores go.")
@common_options
def score(**given: Any) -> None:
    """Score new rows by a model already trained.

    A row that the model was trained on gets a score that is too sure: for those rows use the
    scores that 'transform' wrote.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from . import pipeline
    from .outputs import check_distinct, check_table_target
    from .rows import Rows
    from .tables import open_table, read_bytes
    from .transform.store import load_model

    console = _start(given)
    check_table_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    model, _ = load_model(given["model"], read_bytes(given["model"]))
    table = open_table(given["table"])
    features = [column.name for column in model.encoding.columns]
    rows = Rows.matched(
        [table], features=features, id_column=given["id_column"], wanted_by="the model"
    )
    extra = [c for c in table.columns if c not in features and c != given["id_column"]]
    if extra:
        console.say(f"punoise: {table.name}: not in the model and left out: {', '.join(extra)}")
    count = pipeline.score(rows, model, given["threads"], given["out"])
    console.detail(f"punoise: {count} rows scored")


@cli.command("estimate-prior")
@click.option("--scores", metavar="SCORES", help="Scores that 'transform' wrote, or your own.")
@table_options
@column_options
@click.option("--out", default="-", metavar="PRIOR.json", help="By default standard output.")
@transform_options
@prior_options
@common_options
@click.pass_context
def estimate_prior(ctx: click.Context, /, **given: Any) -> None:
    """Estimate alpha and beta, from scores or from the tables themselves.

    \b
    punoise estimate-prior --scores scores.tsv --out prior.json
    punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv
    """
    from .outputs import check_distinct, check_target, write_json

    console = _start(given)
    check_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    try:
        prior, notices = _prior(ctx, console)
    except (InputError, EstimationError) as error:
        write_json(given["out"], _failed_prior(given, error, console).as_json())
        return
    write_json(given["out"], prior.as_json())
    _report(prior, console)
    _check_strict(given, *notices, *prior.notices)


@cli.command()
@click.option(
    "--scores", required=True, metavar="SCORES", help="What 'transform' or 'score' wrote."
)
@prior_source_options
@click.option("--out", required=True, metavar="POSTERIOR", help="Where the posteriors go.")
@click.option(
    "--model",
    metavar="MODEL",
    help="For new rows, that is scores by 'score': calibrate by the rows MODEL was trained on.",
)
@click.option("--bounds", is_flag=True, help="Add one-sided 95 % bounds on the posterior.")
@click.option("--fdr", type=SHARE, help="Add a column 'call': the fdr is at most this.")
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
@strict_option
@common_options
def posterior(**given: Any) -> None:
    """The probability of each row that it is positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from . import pipeline
    from .evidence import levels
    from .outputs import check_distinct, check_table_target
    from .posterior import calibrate
    from .tables import read_bytes, read_rule
    from .transform.store import load_model

    console = _start(given)
    check_table_target(given["out"])
    check_distinct([given["out"]], _inputs(given))
    prior = own_or_estimated_prior(given)
    target = given["target_alpha"]
    rule = []
    if given["evidence"] is not None:
        population = prior.alpha if target is None else target
        rule = levels(given["evidence"], read_rule(given["evidence"]), population)
    scored = pipeline.ScoredRows.open(given["scores"], with_set=given["model"] is None)
    if given["model"] is None:
        sketch = scored.sketch()
    else:
        _, sketch = load_model(given["model"], read_bytes(given["model"]))
    calibration = calibrate(sketch, prior, given["calibrator"])
    request = pipeline.PosteriorRequest(
        given["bounds"], given["fdr"], rule, target, given["calibrator"], given["seed"]
    )
    columns = pipeline.posterior_columns(calibration, request)
    counts = pipeline.posterior(scored, sketch, columns, given["out"])
    if given["fdr"] is not None:
        called = counts["call", True]
        console.say(f"calls  {called} unlabeled rows have an fdr of at most {given['fdr']}")
    for level in sorted(rule, key=lambda level: -level.lr):
        rows = counts["evidence", level.name]
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
    help="Scores from which rows are called (repeat); by default every score there is.",
)
@click.option(
    "--out", default="-", metavar="FILE", help="JSON or a table, by its name; by default JSON here."
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
    from .outputs import check_distinct, check_table_target, check_target, is_json
    from .posterior import calibrate

    console = _start(given)
    (check_target if is_json(given["out"]) else check_table_target)(given["out"])
    check_distinct([given["out"]], _inputs(given))
    prior = own_or_estimated_prior(given)
    sketch = pipeline.ScoredRows.open(given["scores"]).sketch()
    calibration = calibrate(sketch, prior, given["calibrator"])
    auc = pipeline.performance(
        calibration, given["calibrator"], given["threshold"], given["seed"], given["out"]
    )
    console.say(f"AUC    {auc}  positives against negatives")
    console.warn(calibration.notices)
    _check_strict(given, *calibration.notices)


@cli.command()
@click.option("--out-dir", required=True, metavar="DIR", help="Directory for the three tables.")
@click.option("--alpha", type=SHARE, default=0.2, show_default=True)
@click.option("--beta", type=SHARE, default=0.95, show_default=True)
@click.option("--n-labeled", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--n-unlabeled", type=click.IntRange(1), default=10000, show_default=True)
@click.option("--n-features", type=click.IntRange(1), default=10, show_default=True)
@common_options
def simulate(**given: Any) -> None:
    """Write labeled.csv, unlabeled.csv and truth.csv, with a known answer.

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


def _start(given: dict[str, Any]) -> Console:
    """Set the threads of the table readers, and make the console."""
    import pyarrow as pa

    pa.set_cpu_count(given["threads"])
    return Console(given["quiet"], given["verbose"])


def _inputs(given: dict[str, Any]) -> list[str | None]:
    """The files a command reads, which none of its outputs may replace."""
    return [
        given.get(name) for name in ("labeled", "unlabeled", "table", "scores", "prior", "model")
    ]


def _prior(ctx: click.Context, console: Console) -> tuple[Prior, Sequence[Notice]]:
    """Estimate from --scores, or from tables that are scored on the way, with its warnings."""
    from . import pipeline
    from .prior import estimate_prior

    given = ctx.params
    samples, notices = None, tuple[Notice, ...]()
    if given["scores"] is not None:
        for option in OF_TABLES:
            if ctx.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT:
                raise UsageError(
                    f"--{option.replace('_', '-')} goes with tables, not with --scores"
                )
        sketch = pipeline.ScoredRows.open(given["scores"]).sketch()
    else:
        rows, transform = open_rows(given), transform_settings(given)
        sketch, trained = pipeline.sketch_tables(rows, transform, console)
        notices = trained.notices
        if pipeline.needs_features(given["method"]):
            samples = pipeline.feature_samples(rows, trained.model, transform)
    prior = estimate_prior(
        sketch, given["method"], estimation_settings(given), samples, given["sample"]
    )
    return prior, notices


def _failed_prior(given: dict[str, Any], error: PunoiseError, console: Console) -> Prior:
    """The prior to write in spite of an error, or the error where none is wanted."""
    from .prior import failed_prior

    if given["on_failure"] != "write":
        raise error
    console.say(f"punoise: warning: no estimate: {error}")
    return failed_prior(given["method"], given["seed"], error, given["sample"])


def _report(prior: Prior, console: Console) -> None:
    """The answer in a few lines on stderr, always with alpha and beta."""
    console.warn(prior.notices)
    for line in prior.summary():
        console.say(line)


def _check_strict(given: dict[str, Any], *notices: Notice) -> None:
    if given["strict"] and notices:
        codes = ", ".join(notice.code for notice in notices)
        raise StrictError(f"warnings under --strict: {codes}")


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


def _terminate(number: int, _: object) -> NoReturn:
    raise Terminated(number)


def main() -> NoReturn:
    """Run the command line; every exit code is decided here."""
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
        return _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except Terminated as error:
        return 128 + int(error.args[0])
    return code if isinstance(code, int) else 0


def _fail(message: str, exit_code: int) -> int:
    click.echo(f"punoise: error: {' '.join(message.split())}", err=True)
    return exit_code
