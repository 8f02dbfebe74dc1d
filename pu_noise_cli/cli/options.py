"""Commands whose options are the fields of a class, each option said once.

A field knows under which heading the help lists it, whether it names a file that is read or
written, and whether results depend on it.

Groups of options of commands that read tables which others have made.

Groups of options that several commands share: classes, which the commands' own inherit from.

Options for peptide-spectrum matches: which belong together, and what they are rolled up to.

Options for tables of many shards.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import StrictError, UsageError
from ..notices import Notice
from .process import Console

if TYPE_CHECKING:
    from ..evidence.strengths import Grading
    from ..prior.base import Settings
    from ..prior.document import Prior
    from ..proteomics.pin import PinRoles
    from ..score.scores import Scores
    from ..score.sketch import Sketch
    from ..score.training import TransformSettings
    from ..tables.reading import Table
    from ..tables.rows import LabeledClass, Rows


HEADINGS = (
    *("Input", "Output", "Columns", "Score", "Estimation", "Posterior", "Audit", "Simulation"),
    *("Large tables", "General"),
)

# ---- The kinds of options


class Option(click.Option):
    """An option, and under which heading the help lists it."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


def option(
    names: str,
    heading: str,
    help: str,
    *,
    reads: bool = False,
    writes: bool = False,
    settles: bool = True,
    **settings: Any,
) -> Any:
    """A field that an option sets; `names` are separated by blanks.

    `settles` says whether results depend on it.
    """
    if (reads or writes) and "type" not in settings:
        settings["type"] = FileName()
    if "default" in settings:
        settings["show_default"] = not callable(settings["default"])
    make = functools.partial(click.option, cls=Option, heading=heading, help=help, **settings)
    written = names.split()
    facts = {"reads": reads, "writes": writes, "settles": settles, "option": written[-1]}
    return field(metadata={"make": lambda name: make(*written, name), **facts})


def flag(names: str, heading: str, help: str, *, settles: bool = True) -> Any:
    """A field that is true where the option is given."""
    return option(names, heading, help, settles=settles, is_flag=True)


def reads(name: str, metavar: str, help: str, *, heading: str = "Input", **settings: Any) -> Any:
    """A field that names a file to read, which no output may replace."""
    return option(name, heading, help, reads=True, metavar=metavar, **settings)


def writes(name: str, metavar: str, help: str, **settings: Any) -> Any:
    """A field that names a file to write."""
    return option(name, "Output", help, writes=True, metavar=metavar, **settings)


def argument(*, metavar: str, reads: bool = False, **settings: Any) -> Any:
    """A field that the command's arguments set."""
    if reads:
        settings["type"] = FileName()
    make = functools.partial(click.argument, metavar=metavar, **settings)
    facts = {"reads": reads, "writes": False, "settles": True, "option": metavar}
    return field(metadata={"make": make, **facts})


class FileName(click.ParamType):  # type: ignore[type-arg]
    """A text that names a file, which the shell can complete."""

    name = "text"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(incomplete, type="file")]


class LazyChoice(click.Choice):  # type: ignore[type-arg]
    """A choice among names that are loaded when first needed, as loading them takes numpy."""

    def __init__(self, load: Callable[[], Iterable[str]]) -> None:
        self.load, self.case_sensitive = load, True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.load())


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; the option may also be repeated."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            names = next(csv.reader([value], skipinitialspace=True))  # '"a,b",c' are two names
        except csv.Error as error:
            self.fail(f"{value!r} is not a list of names ({error})", param, ctx)
        return tuple(name.strip() for name in names if name.strip())


NameLists = tuple[tuple[str, ...], ...]  # of a NameList option that may be repeated


def joined(lists: NameLists) -> tuple[str, ...]:
    """The names of a repeated NameList option."""
    return tuple(name for names in lists for name in names)


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


# ---- Commands that take them


class Command(click.Command):
    """A command whose help lists its options under headings, first what it cannot do without."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(self.get_params(ctx), key=lambda p: not p.required):
            if (record := parameter.get_help_record(ctx)) is not None:
                found.setdefault(getattr(parameter, "heading", HEADINGS[-1]), []).append(record)
        for heading in HEADINGS:
            if heading in found:
                with formatter.section(heading):
                    formatter.write_dl(found[heading])


def available_cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    threads: int = option(
        "--threads",
        "General",
        "Default: PUNOISE_THREADS, else the cores this process may use.",
        settles=False,
        type=click.IntRange(1, 4096),
        envvar="PUNOISE_THREADS",
        default=available_cores,
    )
    quiet: bool = flag("-q --quiet", "General", "Errors only.", settles=False)
    verbose: bool = flag(
        "-v --verbose", "General", "Also what is done, and how long it takes.", settles=False
    )

    def start(self) -> Console:
        """Set the threads of the table readers, and make the console."""
        import pyarrow as pa

        pa.set_cpu_count(self.threads)
        with contextlib.suppress(NotImplementedError):  # not in every build; others hold on to more
            pa.set_memory_pool(pa.jemalloc_memory_pool())
        return Console(self.quiet, self.verbose)

    def check_files(self) -> None:
        """Stop where an output is an input or another output, or the inputs are of two runs."""
        from ..tables.results import check_finished
        from ..tables.writing import check_distinct

        check_distinct(self._files("writes"), self._files("reads"))
        for name in self._files("reads"):
            check_finished(name)

    def _files(self, use: str) -> Iterator[str]:
        for which in fields(self):
            value = getattr(self, which.name)
            if which.metadata[use] and value is not None:
                yield from (value,) if isinstance(value, str) else value

    def values(self, settles: bool) -> dict[str, Any]:
        """The options as given that results depend on, or the others."""
        return {
            which.name: value
            for which, value in self._set()
            if which.metadata["settles"] is settles
        }

    def given(self, *names: str) -> list[str]:
        """Those of some options that were given, as they are written."""
        return [which.metadata["option"] for which, _ in self._set() if which.name in names]

    def _set(self) -> Iterator[tuple[Field[Any], Any]]:
        for which in fields(self):
            value = getattr(self, which.name)
            if value is not None and value is not False and value != ():
                yield which, value


Given = TypeVar("Given", bound="Common")


def command(
    options: type[Given], name: str | None = None
) -> Callable[[Callable[[Given, Console], None]], click.Command]:
    """Make a command of a function that takes the options and a console."""

    def enter(function: Callable[[Given, Console], None]) -> click.Command:
        @functools.wraps(function)
        def call(**values: Any) -> None:
            given = options(**values)
            given.check_files()
            function(given, given.start())

        parameters = [field.metadata["make"](field.name) for field in fields(options)]
        for parameter in reversed(parameters):
            parameter(call)
        return click.command(name, cls=Command)(call)

    return enter


def _kinds() -> Iterable[str]:
    from ..proteomics import pin  # noqa: F401 - registers .pin files
    from ..tables.reading import READERS

    return READERS


@dataclass(frozen=True, kw_only=True)
class InputFormat(Common):
    """Commands that read tables which others have made."""

    input_format: str | None = option(
        "--input-format",
        "Input",
        "What the tables are, whatever their names say.",
        type=LazyChoice(_kinds),
    )

    def open_table(self, name: str) -> Table:
        """A table of the user's, of the format that it is said to have."""
        from ..proteomics import pin  # noqa: F401 - registers .pin files
        from ..tables.reading import open_table

        return open_table(name, self.input_format)


@dataclass(frozen=True, kw_only=True)
class CarriedColumns(Common):
    """Commands whose output has columns of their input."""

    id_column: NameLists = option(
        "--id-column",
        "Columns",
        "Column of row ids, kept as written, or several that are an id together; by default rows "
        "are numbered.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    keep_columns: NameLists = option(
        "--keep-columns",
        "Columns",
        "Columns that the outputs are to have too, as written; they are no features unless named "
        "as such.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )


@dataclass(frozen=True, kw_only=True)
class MissingScore(Common):
    """Commands that may use a column as the score."""

    missing_score: str | None = option(
        "--missing-score",
        "Score",
        "Where a column is the score and a row has no value there: stop, or skip the row, which "
        "then has no posterior and counts nowhere.  [default: stop]",
        type=click.Choice(["stop", "skip"]),
    )

    @property
    def skip_missing(self) -> bool | None:
        """Whether to skip rows without a score, where that was said."""
        return None if self.missing_score is None else self.missing_score == "skip"


@dataclass(frozen=True, kw_only=True)
class NamedTables(Common):
    """The tables of labeled and unlabeled rows and of known negatives, or one of all.

    As the last base of a class of options it comes first in the help.
    """

    labeled: str | None = reads("--labeled", "FILE", "Table of labeled positives.")
    unlabeled: str | None = reads("--unlabeled", "FILE", "Table of unlabeled rows.")
    negatives: str | None = reads(
        "--negatives", "FILE", "Table of known negatives that look like those among the unlabeled."
    )
    table: str | None = reads("--table", "FILE", "One table of all, with --label-column.")
    label_column: str | None = option(
        "--label-column",
        "Input",
        "Column of --table that says which rows are labeled: 1/0, true/false, yes/no or "
        "labeled/unlabeled; and negative, for known negatives.",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class LabelValues(Common):
    """Commands that can read a label column in words of the user's own."""

    labeled_value: NameLists = option(
        "--labeled-value",
        "Input",
        "Values of --label-column that mean labeled, such as P; rows with others are unlabeled.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    negative_value: NameLists = option(
        "--negative-value",
        "Input",
        "With --labeled-value: values that mean a known negative, such as B.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )

    def label_values(self, label_column: str | None) -> list[tuple[str, int]]:
        """What values of the label column say, where that is the user's own."""
        from ..tables.rows import LABELED, NEGATIVE

        stated = self.given("labeled_value", "negative_value")
        if stated and label_column is None:
            raise UsageError(f"{stated[0]} goes with --label-column")
        labeled, negative = joined(self.labeled_value), joined(self.negative_value)
        if negative and not labeled:
            raise UsageError("--negative-value goes with --labeled-value")
        if both := set(labeled) & set(negative):
            raise UsageError(f"{min(both)!r} cannot be a labeled and a negative value")
        return [(v, LABELED) for v in labeled] + [(v, NEGATIVE) for v in negative]


@dataclass(frozen=True, kw_only=True)
class ByOption(Common):
    """Commands that can tell groups of rows apart."""

    by: str | None = option(
        "--by",
        "Columns",
        "Estimate alpha for each group of rows that this column names (gene, charge, tissue); the "
        "smaller a group, the more it leans on all the others. The outputs keep the column.",
        metavar="COLUMN",
    )

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The columns that must be carried through for it."""
        return () if self.by is None else (self.by,)


@dataclass(frozen=True, kw_only=True)
class GroupsOption(ByOption):
    """Commands that write the groups to a file of any name."""

    groups_out: str | None = writes(
        "--groups-out", "GROUPS", "With --by: the table of groups to write."
    )

    def check_groups_out(self) -> None:
        """Stop, before any work is done, where the groups cannot be written."""
        from ..tables.writing import check_table_target

        if self.groups_out is None:
            return
        if self.by is None:
            raise UsageError("--groups-out goes with --by, which says what groups there are")
        check_table_target(self.groups_out)


DECOYS_CLASSIFIER = "semi-supervised"  # of tables whose labels are certain


@dataclass(frozen=True, kw_only=True)
class Seeded(Common):
    """Commands that draw random numbers."""

    seed: int = option(
        "--seed",
        "General",
        "Seed of all random numbers.",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
    )


@dataclass(frozen=True, kw_only=True)
class Strict(Common):
    """Commands that may warn."""

    strict: bool = flag(
        "--strict", "General", "Exit with 4, after writing, if there is any warning.", settles=False
    )

    def check_strict(self, notices: Iterable[Notice]) -> None:
        """Stop at any warning, where that is wanted."""
        if codes := [notice.code for notice in notices] if self.strict else []:
            raise StrictError(f"warnings under --strict: {', '.join(codes)}")


@dataclass(frozen=True, kw_only=True)
class OnFailure(Common):
    """Commands that can tell of a failure in their output."""

    on_failure: str = option(
        "--on-failure",
        "General",
        "If input or estimation fails: exit with 3 or 4, or write why and exit with 0.",
        settles=False,
        type=click.Choice(["exit", "write"]),
        default="exit",
    )


def _classifiers() -> Iterable[str]:
    from ..score.classifiers import CLASSIFIERS

    return CLASSIFIERS


@dataclass(frozen=True, kw_only=True)
class LabelsOption(Common):
    """Commands that must know what the labels say."""

    labeled_are: str | None = option(
        "--labeled-are",
        "Input",
        "What labeled rows are; decoys are negatives. High scores mean positive all the same. "
        "[default: what the files say, else positives]",
        type=click.Choice(["positives", "negatives"]),
    )

    @property
    def labeled_negatives(self) -> bool:
        return self.labeled_are == "negatives"

    def negatives_in(self, scores: Scores | Sketch) -> bool:
        """Whether labeled rows are negatives: as the user says or, where nothing, the scores."""
        from ..score.sketch import Sketch

        said = (scores if isinstance(scores, Sketch) else scores.rows).labeled_class == "negative"
        if said and self.labeled_are == "positives":
            raise UsageError("--labeled-are positives: the scores say that theirs are negatives")
        return said or self.labeled_negatives


@dataclass(frozen=True, kw_only=True)
class TableOptions(
    Seeded, CarriedColumns, InputFormat, MissingScore, LabelsOption, LabelValues, NamedTables
):
    """Commands that read labeled and unlabeled rows, and known negatives."""

    group_column: str | None = option(
        "--group-column",
        "Columns",
        "Rows of one group are never split between training and scoring; 'run' bounds posteriors "
        "and evidence by groups, too.",
        metavar="NAME",
    )
    features: NameLists = option(
        "--features",
        "Columns",
        "Feature columns; by default all but the id, group, label, kept and dropped ones.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    drop_columns: NameLists = option(
        "--drop-columns",
        "Columns",
        "Columns to ignore.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    na: tuple[str, ...] = option(
        "--na",
        "Columns",
        "Another text or number that means a missing value; may be repeated.",
        metavar="TEXT",
        multiple=True,
    )
    categorical: NameLists = option(
        "--categorical",
        "Columns",
        "Read these columns as categories, whatever they look like.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    transform: bool | None = option(
        "--transform/--no-transform",
        "Score",
        "Learn a score from the features, or use the one numeric column as the score. By "
        "default a single numeric column is the score and anything else is transformed.",
        default=None,
    )
    score_column: str | None = option(
        "--score-column", "Score", "Use this column as the score.", metavar="NAME"
    )
    lower_is_positive: bool = flag(
        "--lower-is-positive",
        "Score",
        "Low values of the score column mean positive; it is written with the opposite sign "
        "(thresholds of 'run' keep its own).",
    )
    classifier: str | None = option(
        "--classifier",
        "Score",
        "What learns the score.  [default: standard]",
        type=LazyChoice(_classifiers),
    )
    max_train_rows: int | None = option(
        "--max-train-rows",
        "Score",
        "Train on a sample of at most this many rows; all rows are scored.  [default: 100000]",
        type=click.IntRange(100, 2**31),
    )

    @property
    def only_to_learn(self) -> tuple[str, ...]:
        """Options that do nothing where a column is used as the score."""
        return ("classifier", "max_train_rows", "group_column")

    def rows(self, by: Sequence[str] = ()) -> Rows:
        """The rows that --labeled, --unlabeled and --negatives, or --table, name.

        `by` are the columns of --by, which are carried through.
        """
        from ..proteomics.pin import SET_NAMES as PIN_SETS
        from ..tables.rows import Rows

        sets, names = self._tables()
        tables = [self.open_table(name) for name in names]
        for table, column in product(tables, by):
            table.require(column, "--by")
        pin = self._pin(tables)
        features = joined(self.features)
        if self.score_column is not None:
            if features or self.transform:
                raise UsageError("--score-column goes with neither --features nor --transform")
            features = (self.score_column,)
        return Rows.from_tables(
            tables,
            sets=sets,
            features=features,
            drop=(*joined(self.drop_columns), *self._no_features(pin)),
            id_columns=joined(self.id_column) or ((pin.id,) if pin else ()),
            group_column=self.group_column or (pin.scan if pin else None),
            label_column=self.label_column or (pin.label if pin and self.table else None),
            label_values=self.label_values(self.label_column),
            keep=(*joined(self.keep_columns), *by),
            keys=self.keys(tables, pin),
            set_names=PIN_SETS if pin and self.table else None,
            labeled_class="negative" if self.labeled_negatives else "positive",
            wanted_by="features" if self.score_column is None else "score_column",
        )

    @property
    def of_pin(self) -> bool:
        """Whether the tables are said to be .pin files, in which columns are known by name."""
        from ..proteomics.pin import is_pin_name

        names = (self.labeled, self.unlabeled, self.negatives, self.table)
        return self.input_format == "pin" or any(map(is_pin_name, filter(None, names)))

    @property
    def labeled_negatives(self) -> bool:
        return super().labeled_negatives or (self.labeled_are is None and self.of_pin)

    @property
    def of_decoys(self) -> bool:
        """Whether the labeled rows are decoys, each of which is certainly a negative."""
        return self.of_pin

    def _pin(self, tables: Iterable[Table]) -> PinRoles | None:
        """What the columns of .pin files are, if the tables are such."""
        from ..proteomics.pin import PinRoles

        found = [table for table in tables if table.shards[0].format.kind == "pin"]
        if found and not self.of_pin:
            raise UsageError(f"{found[0].name}: holds .pin files; say so with --input-format pin")
        if found and self.table is not None and not self.labeled_negatives:
            raise UsageError("--labeled-are positives: the labeled rows of a .pin file are decoys")
        if found and self.table is None and self.labeled_are is None:
            raise UsageError(
                f"{found[0].name}: a .pin file says which of its rows are decoys: give it as "
                "--table; if those of --labeled all are, and no others, say --labeled-are negatives"
            )
        return PinRoles.from_table(found[0]) if found else None

    def _no_features(self, pin: PinRoles | None) -> list[str]:
        """The columns of a .pin file that are no features, unless they are said to be."""
        named = {*joined(self.features), *joined(self.id_column), *joined(self.keep_columns)}
        return [] if pin is None else [c for c in (pin.label, *pin.others) if c not in named]

    def keys(self, tables: Sequence[Table], pin: PinRoles | None) -> dict[str, tuple[str, ...]]:
        """The columns that say which matches belong together."""
        from ..proteomics.matches import match_keys

        return match_keys(tables, pin.spectrum, pin.peptide) if pin else {}

    def _tables(self) -> tuple[list[int], list[str]]:
        """The names of the tables, and the set that each has the rows of."""
        from ..tables.rows import LABELED, NEGATIVE, UNLABELED

        # in the order of their names, which is that of the files of shards
        by_set = {LABELED: self.labeled, NEGATIVE: self.negatives, UNLABELED: self.unlabeled}
        given = {code: name for code, name in by_set.items() if name is not None}
        if self.table is not None:
            if given:
                raise UsageError("give either --table, or --labeled and --unlabeled, not both")
            if self.label_column is None and not self.of_pin:
                raise UsageError(
                    "--table needs --label-column (or, if it is a .pin file of another name, "
                    "--input-format pin)"
                )
            return [UNLABELED], [self.table]
        if self.labeled is None or len(given) < 2:
            raise UsageError("give --labeled and --unlabeled, or --table and --label-column")
        if self.label_column is not None:
            raise UsageError("--label-column goes with --table")
        if self.labeled_negatives and self.negatives is not None:
            raise UsageError("--negatives goes with labeled positives: give all negatives as one")
        if list(given.values()).count("-") > 1:
            raise UsageError("only one table can come from standard input")
        return list(given), list(given.values())

    def transform_settings(self) -> TransformSettings:
        """What the user has fixed about the transform."""
        from ..score.training import TransformSettings

        default = TransformSettings()
        usual = DECOYS_CLASSIFIER if self.of_decoys else default.classifier
        return TransformSettings(
            classifier=self.classifier or usual,
            train=False if self.score_column is not None else self.transform,
            lower_is_positive=self.lower_is_positive,
            skip_missing=self.skip_missing,
            max_train_rows=self.max_train_rows or default.max_train_rows,
            na=self.na,
            categorical=joined(self.categorical),
            seed=self.seed,
            threads=self.threads,
            only_to_learn=tuple(self.given(*self.only_to_learn)),
        )


def _methods() -> Iterable[str]:
    from ..prior.base import ESTIMATORS
    from ..proteomics import matches  # noqa: F401  (registers a method)

    return [*ESTIMATORS, "all"]


@dataclass(frozen=True, kw_only=True)
class EstimationOptions(Seeded, LabelsOption):
    """Commands that estimate α and β."""

    method: str | None = option(
        "--method",
        "Estimation",
        "How to estimate; 'all' runs every method and answers with auto's.  [default: auto; for "
        "matches with decoys, target-decoy]",
        type=LazyChoice(_methods),
    )
    beta: float | None = option(
        "--beta",
        "Estimation",
        "Share of the labeled rows that are what the labels say, if known; it is then held fixed.",
        type=SHARE,
    )
    purity: float | None = option(
        "--purity",
        "Estimation",
        "Assume that at least this share of the unlabeled rows that score like the top fifth of "
        "the labeled ones are positive; 0 assumes nothing.  [default: 0.3; with negatives 0]",
        type=SHARE,
    )
    alpha_between: tuple[float, float] | None = option(
        "--alpha-between",
        "Estimation",
        "What is known of alpha beforehand.",
        metavar="LOW HIGH",
        type=SHARE,
        nargs=2,
    )
    beta_between: tuple[float, float] | None = option(
        "--beta-between",
        "Estimation",
        "What is known of beta beforehand.",
        metavar="LOW HIGH",
        type=SHARE,
        nargs=2,
    )
    sample: str | None = option(
        "--sample", "Output", "Sample name to put into the JSON.", metavar="NAME"
    )

    @property
    def chosen_method(self) -> str:
        return self.method or "auto"

    def estimation_settings(self) -> Settings:
        """What the user has fixed about the estimation; nothing that the method would ignore."""
        from ..prior.base import ESTIMATORS, Settings

        self._check_ranges()
        method = self.chosen_method
        methods = ESTIMATORS.values() if method == "all" else [ESTIMATORS[method]]
        known = {name for method in methods for name in method.options}
        own = {name for method in ESTIMATORS.values() for name in method.options}
        if ignored := self.given(*(own - known)):
            raise UsageError(f"{ignored[0]} does nothing with --method {method}")
        chosen = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        return Settings(beta=self.beta, seed=self.seed, **chosen)

    def _check_ranges(self) -> None:
        """Stop at what is no range."""
        if self.beta is not None and self.beta_between is not None:
            raise UsageError("give either --beta or --beta-between, not both")
        for name, between in (("alpha", self.alpha_between), ("beta", self.beta_between)):
            if between is not None and between[0] > between[1]:
                raise UsageError(f"--{name}-between: {between[0]:g} is above {between[1]:g}")

    def check_possible(self, labeled_negatives: bool) -> None:
        """Stop at what cannot be true of α and β together, where it is known what labels say."""
        low, high = self.alpha_between or (0.0, 1.0)
        _, most = self.beta_between or (0.0, 1.0 if self.beta is None else self.beta)
        if labeled_negatives and 1 - high >= most:
            raise UsageError(f"alpha cannot be {high:g} or less where beta is at most {most:g}")
        if not labeled_negatives and low >= most:
            raise UsageError(f"alpha cannot be {low:g} or more where beta is at most {most:g}")


def stated_shares(
    alpha: float | None, beta: float | None, labeled_negatives: bool
) -> tuple[float, float]:
    """The user's own α and β, which must be possible together."""
    alpha, beta = alpha or 0.0, 1.0 if beta is None else beta
    if labeled_negatives and 1 - alpha >= beta:
        raise UsageError(f"1 - --alpha {alpha} must be below --beta {beta}")
    if not labeled_negatives and alpha >= beta:
        raise UsageError(f"--alpha {alpha} must be below --beta {beta}")
    return alpha, beta


@dataclass(frozen=True, kw_only=True)
class PriorSource(Seeded, Strict, LabelsOption):
    """Commands that take α and β as given."""

    prior: str | None = reads("--prior", "PRIOR.json", "What 'estimate-prior' wrote.")
    alpha: float | None = option(
        "--alpha", "Input", "Your own alpha, instead of --prior.", type=SHARE
    )
    beta: float | None = option(
        "--beta", "Input", "Your own beta, with --alpha; by default 1.", type=SHARE
    )

    def read_prior(self, scores: Scores) -> Prior:
        """The prior that was estimated, or the user's own for some scores."""
        from ..prior.document import read_prior, stated

        if (self.prior is None) == (self.alpha is None):
            raise UsageError("give either --prior, or --alpha (and --beta)")
        if self.prior is not None:
            if unused := self.given("beta", "labeled_are"):
                raise UsageError(f"{unused[0]} goes with --alpha; --prior has its own")
            return read_prior(self.prior)
        negatives = self.negatives_in(scores)
        labeled_class: LabeledClass = "negative" if negatives else "positive"
        return stated(*stated_shares(self.alpha, self.beta, negatives), labeled_class)


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions(Common):
    """Commands that grade evidence, and that look at another population."""

    evidence: str | None = reads(
        "--evidence",
        "acmg|FILE",
        "Add the evidence strength that the bounds on the likelihood ratio support, by the "
        "ACMG's rules or your own.",
        heading="Posterior",
    )
    target_alpha: float | None = option(
        "--target-alpha",
        "Posterior",
        "Give posterior, fdr and levels of evidence for a population with this share of positives.",
        type=INNER_SHARE,
    )

    def check_population(self, by: str | None) -> None:
        """Stop where posteriors would be for each group and for another population at once."""
        if by is not None and self.target_alpha is not None:
            raise UsageError("--by gives each group its own alpha: leave out --target-alpha")

    def grading(self) -> Grading | None:
        """How evidence is to be graded, if at all."""
        from ..evidence.strengths import Grading

        return None if self.evidence is None else Grading.read(self.evidence, self.target_alpha)


@dataclass(frozen=True, kw_only=True)
class SpectrumOption(TableOptions):
    """Commands in which matches of one spectrum compete."""

    spectrum_columns: NameLists = option(
        "--spectrum-columns",
        "Columns",
        "Of the rows with the same values here, matches of one spectrum, only the best counts; "
        "with labeled negatives, which are decoys.  [default of .pin files: scan, mass and file]",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )

    @property
    def of_decoys(self) -> bool:
        return self.of_pin or bool(self.spectrum_columns)

    def rows(self, by: Sequence[str] = ()) -> Rows:
        found = super().rows(by)
        several = any(len(table.shards) > 1 for table in found.tables)
        if found.keys and len(found.tables) > 1 and several:
            raise UsageError(
                "of several files, each is taken for a run with scans of its own, so that targets "
                "and decoys of a spectrum must be in one: give them as --table"
            )
        return found

    def keys(self, tables: Sequence[Table], pin: PinRoles | None) -> dict[str, tuple[str, ...]]:
        from ..proteomics.matches import match_keys

        spectrum = joined(self.spectrum_columns) or (pin.spectrum if pin else ())
        if spectrum and not self.labeled_negatives:
            raise UsageError("--spectrum-columns is for decoys: it needs --labeled-are negatives")
        return match_keys(tables, spectrum, pin.peptide if pin else None) if spectrum else {}


@dataclass(frozen=True, kw_only=True)
class RollUpOptions(SpectrumOption):
    """Commands that roll matches up."""

    peptide_column: str | None = option(
        "--peptide-column",
        "Columns",
        "With matches: also roll them up to these peptides.  [default of .pin files: Peptide]",
        metavar="NAME",
    )
    protein_column: str | None = option(
        "--protein-column",
        "Columns",
        "With matches: also roll them up to these proteins, or groups of proteins.",
        metavar="NAME",
    )

    def keys(self, tables: Sequence[Table], pin: PinRoles | None) -> dict[str, tuple[str, ...]]:
        keys = super().keys(tables, pin)
        unused = self.given("peptide_column", "protein_column")
        if unused and not keys:
            raise UsageError(f"{unused[0]} goes with --spectrum-columns, or with a .pin file")
        rolled_up = {"peptide": self.peptide_column, "protein": self.protein_column}
        return keys | {name: (column,) for name, column in rolled_up.items() if column}


@dataclass(frozen=True, kw_only=True)
class DaskOption(Common):
    """Commands that can let a cluster read the tables."""

    dask: str | None = option(
        "--dask",
        "Large tables",
        "Work on the Dask cluster whose scheduler has this address or wrote this file; it "
        "reads and writes Parquet shards.",
        metavar="ADDRESS",
        settles=False,
    )


@dataclass(frozen=True, kw_only=True)
class ShardsOptions(DaskOption):
    """Commands that can write a directory of shards."""

    resume: bool = flag(
        "--resume",
        "Large tables",
        "Keep the shards that an interrupted run of the same command has finished.",
        settles=False,
    )

    def check_table_out(self, out: str, rows: Rows) -> None:
        """Stop, before any work is done, where `out` cannot be a table or a directory of shards."""
        from ..scale.engine import check_sharded_target, is_sharded
        from ..tables.writing import check_table_target

        if is_sharded(out):
            check_sharded_target(out, rows)
            return
        if unused := self.given("dask", "resume"):
            raise UsageError(f"{unused[0]} goes with shards: let the name after --out end in '/'")
        check_table_target(out)
