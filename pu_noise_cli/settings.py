"""The settings of every command: each option is defined here, once.

The options of a command are the fields of its settings; those of a group, such as `Inputs`, are
fields of the group. Types say of what kind a value is, and a field without a default is required.
The parameters of the command line, the help and its order, the checks, the reference and what
provenance.json records all follow from these classes.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from .errors import UsageError, option
from .options import Changes, Option, Without, definitions

Names: TypeAlias = tuple[str, ...]
Range: TypeAlias = tuple[float, float]
Source: TypeAlias = Any  # the name of a file, or a Table in memory
FRACTION = (0, 1)
FORMATS = ("csv", "tsv", "parquet", "xlsx")
SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


def cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---- Options of several groups or commands

SEED = Option("Random seed.", range=(0, 2**63 - 1))
THREADS = Option(
    "Number of threads.  [default: PUNOISE_THREADS, else all available cores]",
    range=(1, 4096),
    envvar="PUNOISE_THREADS",
    affects_results=False,
)
OUT_DIR = Option("Output directory.", heading="Output", metavar="DIR", affects_results=False)
INPUT_FORMAT = Option(
    "Input format, if it cannot be inferred from the file name.",
    heading="Input",
    choices=FORMATS,
)
ID_COLUMN = Option(
    "ID column(s), copied to the outputs and not used as features. Without it, rows are numbered "
    "from 0."
)
KEEP_COLUMNS = Option(
    "Extra columns to copy to the outputs (not features unless listed in --features)."
)
GROUP_COLUMN = Option(
    "Keep rows with the same value (e.g. gene) together in cross-validation, and widen bounds "
    "accordingly. For an alpha of each group, see --by.",
    also="--keep-together",
    heading="Columns",
    metavar="NAME",
)
BY = Option(
    "Estimate a separate alpha for each value of this column (e.g. gene), with partial pooling: "
    "small groups borrow strength from the rest. The outputs keep the column.",
    also="--alpha-by",
    heading="Columns",
    metavar="COLUMN",
    excludes=("target_alpha",),
    hint="each group has its own alpha",
)
FEATURES = Option(
    "Feature columns. By default all columns except ID, group, label, kept and dropped ones."
)
DROP_COLUMNS = Option("Columns to ignore.")
NA = Option(
    "Additional missing-value code, e.g. -1 (repeatable).",
    heading="Columns",
    metavar="TEXT",
    is_repeated=True,
)
SCORE_COLUMN = Option(
    "Use this column as the score.",
    heading="Score",
    metavar="NAME",
    excludes=("features", "transform=True"),
)
LABEL_COLUMN = Option(
    "Column of --table that marks labeled rows: 1/0, true/false, yes/no or labeled/unlabeled; "
    "'negative' marks known negatives.",
    heading="Input",
    metavar="NAME",
    needs=("table",),
)
LABELED_VALUE = Option(
    "Values in --label-column that mark labeled rows (e.g. P). All other rows are unlabeled, "
    "unless one of the next three options is given.",
    heading="Input",
    needs=("label_column",),
)
LABELED_ARE = Option(
    "Whether labeled rows are positives or negatives, such as decoys. High scores always mean "
    "positive.  [default: as the files say, else positives]",
    heading="Input",
)
MISSING_SCORE = Option(
    "With --score-column: stop at a missing score, or skip such rows (they get no posterior).  "
    "[default: stop]",
    heading="Score",
)
TARGET_ALPHA = Option(
    "Report posteriors and FDR for another population, in which this fraction is positive.",
    heading="Posterior",
    range=FRACTION,
    ends_excluded=True,
)
SCORES = Option("Scores written by 'transform'.", file="read", metavar="SCORES")
PRIOR = Option(
    "Alpha and beta, as written by 'estimate-prior' or 'run'.",
    file="read",
    metavar="PRIOR.json",
    excludes=("alpha", "beta", "labeled_are"),
)
SKETCH_OUT = Option(
    "Also write a sketch of the scores, for 'estimate-prior --sketch'; those of parts count as "
    "one.",
    file="written",
    metavar="SKETCH",
)
GROUPS_OUT = Option(
    "With --by: the table of groups to write.", file="written", metavar="GROUPS", needs=("by",)
)
FIGURES = Option(
    "Also write the charts to this directory, as SVG and PNG.",
    heading="Output",
    metavar="DIR",
    affects_results=False,
)
SCORES_OUT = Option(
    "Scores to write: a table, or DIR/ for Parquet shards.", file="written", metavar="SCORES"
)


# ---- Groups of options


@dataclass(frozen=True, kw_only=True)
class Process:
    """How a command runs and ends."""

    dask: Annotated[
        str | None,
        Option(
            "Use a Dask cluster: scheduler address or scheduler file (Parquet shards only).",
            heading="Large tables",
            metavar="ADDRESS",
            excludes=("table_format=tsv", "table_format=csv"),
            hint="shards are Parquet files",
            affects_results=False,
        ),
    ] = None
    strict: Annotated[
        bool,
        Option(
            "Exit with code 4, after writing the outputs, if there is any warning.",
            affects_results=False,
        ),
    ] = False
    on_failure: Annotated[
        Literal["exit", "write"],
        Option(
            "On bad input or failed estimation: exit with code 3 or 4 (exit), or record the "
            "reason in prior.json and exit with 0 (write).",
            affects_results=False,
        ),
    ] = "exit"
    threads: Annotated[int, THREADS] = field(default_factory=cores)
    quiet: Annotated[
        bool, Option("Print errors only (hides warnings).", also="-q", affects_results=False)
    ] = False
    verbose: Annotated[
        bool, Option("Show progress details and timings.", also="-v", affects_results=False)
    ] = False


class CommandSettings(Protocol):
    """The settings of any command."""

    @property
    def process(self) -> Process: ...


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How tables are laid out, as far as the user says it."""

    input_format: Annotated[str | None, INPUT_FORMAT] = None
    delimiter: Annotated[
        str | None,
        Option(
            "Column separator of text tables: ';', '|', 'tab', ...  [default: detected]",
            heading="Input",
            metavar="CHARACTER",
        ),
    ] = None
    decimal: Annotated[
        Literal[".", ","] | None,
        Option(
            "Decimal mark of text tables; the other mark then separates thousands.  [default: "
            "detected]",
            heading="Input",
        ),
    ] = None
    sheet: Annotated[
        str | None,
        Option(
            "Sheet of a workbook (.xlsx; needs the extra 'excel').  [default: the first]",
            heading="Input",
            metavar="NAME",
        ),
    ] = None

    def __post_init__(self) -> None:
        separator = self.separator
        if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
            name = option("delimiter")
            raise UsageError(f"{name} {self.delimiter!r}: one character, or 'tab', is needed")

    @property
    def separator(self) -> str | None:
        """The delimiter as a character."""
        return SPELLED.get(self.delimiter or "", self.delimiter)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The tables, and the role of each column."""

    labeled: Annotated[
        Source | None, Option("Table of labeled positives.", file="read", metavar="FILE")
    ] = None
    unlabeled: Annotated[
        Source | None, Option("Table of unlabeled rows.", file="read", metavar="FILE")
    ] = None
    negatives: Annotated[
        Source | None,
        Option(
            "Table of known negatives, comparable to the negatives in --unlabeled.",
            file="read",
            metavar="FILE",
            excludes=("labeled_are=negatives",),
            hint="put all negatives into one table",
        ),
    ] = None
    table: Annotated[
        Source | None,
        Option(
            "One table with all rows; requires --label-column.",
            file="read",
            metavar="FILE",
            excludes=("labeled", "unlabeled", "negatives"),
        ),
    ] = None
    layout: Layout = Layout()
    label_column: Annotated[str | None, LABEL_COLUMN] = None
    labeled_value: Annotated[Names, LABELED_VALUE] = ()
    negative_value: Annotated[
        Names,
        Option(
            "With --labeled-value: values that mark known negatives (e.g. B).",
            heading="Input",
            needs=("labeled_value",),
        ),
    ] = ()
    unlabeled_value: Annotated[
        Names,
        Option(
            "With --labeled-value: values that mark unlabeled rows; '*' stands for every value "
            "not named.",
            heading="Input",
            needs=("labeled_value",),
        ),
    ] = ()
    ignore_value: Annotated[
        Names,
        Option(
            "With --labeled-value: values of rows to leave out (e.g. VUS); '*' as above.",
            heading="Input",
            needs=("labeled_value",),
        ),
    ] = ()
    labeled_are: Annotated[Literal["positives", "negatives"] | None, LABELED_ARE] = None
    id_column: Annotated[Names, ID_COLUMN] = ()
    keep_columns: Annotated[Names, KEEP_COLUMNS] = ()
    group_column: Annotated[str | None, GROUP_COLUMN] = None
    by: Annotated[str | None, BY] = None
    features: Annotated[Names, FEATURES] = ()
    drop_columns: Annotated[Names, DROP_COLUMNS] = ()
    score_column: Annotated[str | None, SCORE_COLUMN] = None


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """How the score is learned, or which column it is."""

    na: Annotated[Names, NA] = ()
    categorical: Annotated[
        Names, Option("Treat these columns as categories even if they look like numbers.")
    ] = ()
    transform: Annotated[
        bool | None,
        Option(
            "Force or prevent learning a score. By default, a single numeric column is used as "
            "the score, and a score is learned from anything else.",
            heading="Score",
        ),
    ] = None
    score_column: Annotated[str | None, SCORE_COLUMN] = None
    lower_is_positive: Annotated[
        bool,
        Option(
            "Low scores mean positive. Output scores are negated; thresholds stay on the original "
            "scale.",
            heading="Score",
        ),
    ] = False
    missing_score: Annotated[Literal["stop", "skip"] | None, MISSING_SCORE] = None
    classifier: Annotated[
        str | None,
        Option(
            "Classifier that learns the score.  [default: standard]",
            heading="Score",
            choices="classifiers",
        ),
    ] = None
    max_train_rows: Annotated[
        int | None,
        Option(
            "Train on a sample of at most this many rows; all rows are scored.  [default: 100000]",
            heading="Score",
            range=(100, 2**31),
        ),
    ] = None
    count_overlap: Annotated[
        bool,
        Option(
            "Also count labeled rows that are in --unlabeled (same ID, or identical) as "
            "unlabeled. By default they are scored but not counted there.",
            heading="Input",
            needs=("unlabeled",),
        ),
    ] = False
    seed: Annotated[int, SEED] = 0
    threads: Annotated[int, THREADS] = 1


@dataclass(frozen=True, kw_only=True)
class PriorSettings:
    """How alpha and beta are estimated, or what they are stated to be."""

    method: Annotated[
        str | None,
        Option(
            "Estimator. 'auto' is the most accurate on real data; 'subclasses' is for kinds of "
            "positives that were labeled at unequal rates; 'all' compares every method.  "
            "[default: auto]",
            heading="Estimation",
            choices="methods",
        ),
    ] = None
    beta: Annotated[
        float | None,
        Option(
            "Known fraction of correct labels; fixes beta.",
            heading="Estimation",
            range=FRACTION,
            excludes=("beta_between",),
        ),
    ] = None
    purity: Annotated[
        float | None,
        Option(
            "Assume that at least this fraction is positive among the unlabeled rows that score "
            "like the top fifth of the labeled ones.  [default: 0, no assumption]",
            heading="Estimation",
            range=FRACTION,
        ),
    ] = None
    alpha_between: Annotated[
        Range | None,
        Option("Range in which alpha is known to lie.", heading="Estimation", range=FRACTION),
    ] = None
    beta_between: Annotated[
        Range | None,
        Option("Range in which beta is known to lie.", heading="Estimation", range=FRACTION),
    ] = None
    alpha: Annotated[
        float | None,
        Option(
            "Use this alpha instead of estimating it (beta defaults to 1). With --negatives, "
            "--unlabeled is then optional. For another population, see --target-alpha.",
            heading="Estimation",
            range=FRACTION,
            ends_excluded=True,
            excludes=("purity", "alpha_between", "beta_between", "method"),
        ),
    ] = None
    sample: Annotated[
        str | None,
        Option("Sample name to record in the outputs.", heading="Output", metavar="NAME"),
    ] = None
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted in addition to the posteriors."""

    bounds: Annotated[
        bool, Option("Add one-sided 95% bounds on the posterior.", heading="Posterior")
    ] = False
    fdr: Annotated[
        float | None,
        Option(
            "Add a column 'call' that is true where the FDR is at most this.",
            heading="Posterior",
            range=FRACTION,
        ),
    ] = None
    target_alpha: Annotated[float | None, TARGET_ALPHA] = None
    by: Annotated[str | None, BY] = None
    groups: Annotated[
        str | None,
        Option(
            "With --by: groups estimated elsewhere. By default they are estimated from these "
            "scores.",
            file="read",
            metavar="GROUPS",
            needs=("by",),
        ),
    ] = None
    seed: Annotated[int, SEED] = 0


# ---- The whole analysis


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What is asked of the rows; the arguments of Python's `estimate`."""

    inputs: Inputs = Inputs()
    scoring: ScoreSettings = ScoreSettings()
    prior: PriorSettings = PriorSettings()
    wanted: Annotated[Wanted, Without("groups")] = Wanted()
    options: Mapping[str, Any] = field(default_factory=dict)  # as given, that affect results
    execution: Mapping[str, Any] = field(default_factory=dict)  # that do not


@dataclass(frozen=True, kw_only=True)
class RunSettings(Analysis):
    """All settings of `run`."""

    SHORT: ClassVar[Names] = (
        *("labeled", "unlabeled", "table", "label_column", "negatives", "out_dir", "table_format"),
        *("id_column", "drop_columns", "score_column", "lower_is_positive", "group_column", "seed"),
    )

    out_dir: Annotated[str, OUT_DIR]
    table_format: Annotated[
        Literal["parquet", "tsv", "csv"],
        Option("Format of the output tables.", heading="Output", affects_results=False),
    ] = "parquet"
    wanted: Annotated[Wanted, Without("groups", "bounds", "fdr")] = Wanted()
    shards: Annotated[
        bool,
        Option(
            "With Parquet inputs: write scores/ and posterior/ as one Parquet file per input "
            "file. Implied by --dask.",
            heading="Large tables",
            excludes=("table_format=tsv", "table_format=csv"),
            hint="shards are Parquet files",
            affects_results=False,
        ),
    ] = False
    process: Process = Process()

    @property
    def sharded(self) -> bool:
        return self.shards or self.process.dask is not None

    def table(self, name: str) -> str:
        """The name of a table of rows: a file, or a directory of shards."""
        return f"{name}/" if self.sharded else f"{name}.{self.table_format}"


@dataclass(frozen=True, kw_only=True)
class CalibrateSettings(RunSettings):
    """All settings of `calibrate`."""

    SHORT: ClassVar[Names] = (
        *("labeled", "negatives", "unlabeled", "table", "label_column", "labeled_value"),
        *("negative_value", "score_column", "lower_is_positive", "missing_score", "alpha"),
        *("target_alpha", "group_column", "id_column", "out_dir"),
    )

    inputs: Annotated[
        Inputs,
        Changes(
            labeled_value={
                "help": "Values in --label-column that mark labeled rows (e.g. P). The other rows "
                "must be named, too: --negative-value, --unlabeled-value or --ignore-value."
            },
            group_column={
                "help": "Column that marks similar rows (e.g. gene); bounds are widened by how "
                "much these groups differ."
            },
        ),
    ] = Inputs()
    scoring: Annotated[
        ScoreSettings,
        Changes(
            score_column={
                "help": "Column with the predictor's score; without it, a score is learned from "
                "all columns."
            },
            lower_is_positive={
                "help": "Low scores mean positive. Thresholds stay on the predictor's scale."
            },
        ),
    ] = ScoreSettings()
    wanted: Annotated[
        Wanted,
        Without("groups", "bounds", "fdr"),
        Changes(
            by={
                "help": "Also find thresholds for each value of this column (e.g. gene), with "
                "partial pooling: small groups borrow strength from the rest. With --alpha and "
                "known negatives only, or with --target-alpha, all groups have one prior.",
                "excludes": (),
            }
        ),
    ] = Wanted()
    process: Annotated[Process, Without("on_failure")] = Process()
    evidence: Annotated[
        str,
        Option(
            "Levels of evidence: ACMG's, or a JSON file with your own.",
            heading="Posterior",
            file="read",
            metavar="acmg|FILE",
        ),
    ] = "acmg"
    disease: Annotated[
        str | None,
        Option("Disease to record in thresholds.json.", heading="Output", metavar="MONDO:ID"),
    ] = None
    clinical_use: Annotated[
        bool, Option("Do not mark the calibration as research use only.", heading="Output")
    ] = False
    figures: Annotated[str | None, FIGURES] = None


# ---- Single steps of it


@dataclass(frozen=True, kw_only=True)
class TransformSettings:
    """All settings of `transform`."""

    SHORT: ClassVar[Names] = (
        *("labeled", "unlabeled", "table", "label_column", "negatives", "out", "model_out"),
        *("id_column", "drop_columns", "score_column", "lower_is_positive", "group_column", "seed"),
    )

    inputs: Annotated[Inputs, Without("by")] = Inputs()
    scoring: ScoreSettings = ScoreSettings()
    out: Annotated[str, SCORES_OUT]
    model_out: Annotated[
        str | None,
        Option("Also write the trained model, for 'score'.", file="written", metavar="MODEL"),
    ] = None
    sketch_out: Annotated[str | None, SKETCH_OUT] = None
    process: Annotated[Process, Without("on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """All settings of `train`."""

    SHORT: ClassVar[Names] = tuple(name for name in TransformSettings.SHORT if name != "model_out")

    inputs: Annotated[Inputs, Without("by")] = Inputs()
    scoring: ScoreSettings = ScoreSettings()
    out: Annotated[str, Option("Model to write.", file="written", metavar="MODEL")]
    process: Annotated[Process, Without("dask", "on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class NewRows:
    """Rows to be scored by a model."""

    model: Annotated[
        str, Option("Model written by 'run', 'transform' or 'train'.", file="read", metavar="MODEL")
    ]
    table: Annotated[str, Option("Rows to score.", file="read", metavar="FILE")]
    set_name: Annotated[
        Literal["labeled", "unlabeled", "negative"] | None,
        Option(
            "Score rows that were used in training: which table they belong to.",
            heading="Input",
            excludes=("label_column",),
        ),
    ] = None
    inputs: Annotated[  # the layout of the table, and the roles of its columns
        Inputs,
        Without("labeled", "unlabeled", "negatives", "table", "labeled_are", "group_column", "by"),
        Without("features", "drop_columns", "score_column"),
        Changes(
            label_column={
                "help": "If --table is the one that the model was trained on: its label column."
            }
        ),
    ] = Inputs()
    missing_score: Annotated[Literal["stop", "skip"] | None, MISSING_SCORE] = None


@dataclass(frozen=True, kw_only=True)
class NewScoresSettings:
    """All settings of `score`."""

    new: NewRows
    out: Annotated[str, SCORES_OUT]
    sketch_out: Annotated[str | None, SKETCH_OUT] = None
    process: Annotated[Process, Without("strict", "on_failure")] = Process()


# options that say how tables are read and scored
_OF_LABELS = ("label_column", "labeled_value", "negative_value", "unlabeled_value", "ignore_value")
_OF_ROWS = tuple(
    name
    for name in (*definitions(Inputs), *definitions(ScoreSettings))
    if name not in ("labeled_are", "by", "seed", "threads")
)


@dataclass(frozen=True, kw_only=True)
class EstimateSettings:
    """All settings of `estimate-prior`; one source of scores is given."""

    SHORT: ClassVar[Names] = (
        *("scores", "labeled", "unlabeled", "table", "label_column", "verdicts", "score_column"),
        *("lower_is_positive", "method", "alpha_between", "beta", "purity", "out", "seed"),
    )

    scores: Annotated[
        str | None,
        Option(
            "Scores written by 'transform', or your own table with id, set and score.",
            file="read",
            metavar="SCORES",
            excludes=_OF_ROWS,
        ),
    ] = None
    sketch: Annotated[
        Names,
        Option(
            "Sketch written by 'score' or 'transform' (repeatable).",
            file="read",
            metavar="SKETCH",
            excludes=("scores", "dask", *_OF_ROWS),
        ),
    ] = ()
    more_sketches: Annotated[
        Names,
        Option(
            "More sketches of the same scores, after --sketch.",
            file="read",
            is_argument=True,
            metavar="[SKETCH]...",
        ),
    ] = ()
    verdicts: Annotated[
        Names,
        Option(
            "Rows drawn by 'audit', with verdicts filled in (repeatable).",
            file="read",
            metavar="AUDIT",
            needs=("scores",),
        ),
    ] = ()
    model: Annotated[
        str | None,
        Option(
            "Estimate alpha of new rows (--table), scored by this model. Positives and negatives "
            "must look like those of its training rows, to which --method and --beta refer.",
            file="read",
            metavar="MODEL",
            needs=("table",),
            excludes=(
                *("scores", "sketch", "verdicts", "by", "dask", *_OF_LABELS, "labeled_are"),
                *("id_column", "keep_columns", "group_column", "features", "drop_columns"),
                *(name for name in definitions(ScoreSettings) if name not in ("seed", "threads")),
            ),
        ),
    ] = None
    inputs: Inputs = Inputs()  # tables to be scored, or the class of labeled scores
    scoring: ScoreSettings = ScoreSettings()
    by: Annotated[str | None, replace(BY, needs=("groups_out",), excludes=("sketch",))] = None
    groups_out: Annotated[str | None, GROUPS_OUT] = None
    prior: Annotated[PriorSettings, Without("alpha")] = PriorSettings()
    out: Annotated[
        str | None,
        Option(
            "Prior to write.  [default: a summary on a terminal, else JSON on standard output]",
            file="written",
            metavar="PRIOR.json",
        ),
    ] = None
    process: Process = Process()

    @property
    def sketches(self) -> Names:
        return (*self.sketch, *self.more_sketches)


@dataclass(frozen=True, kw_only=True)
class PosteriorSettings:
    """All settings of `posterior`."""

    SHORT: ClassVar[Names] = (
        *("scores", "prior", "alpha", "beta", "model", "out"),
        *("bounds", "fdr", "target_alpha", "by"),
    )

    scores: Annotated[str, replace(SCORES, help="Scores written by 'transform' or 'score'.")]
    prior: Annotated[str | None, PRIOR] = None
    alpha: Annotated[
        float | None, Option("Use this alpha, instead of --prior.", heading="Input", range=FRACTION)
    ] = None
    beta: Annotated[
        float | None,
        Option(
            "Use this beta with --alpha.  [default: 1]",
            heading="Input",
            range=FRACTION,
            needs=("alpha",),
        ),
    ] = None
    labeled_are: Annotated[
        Literal["positives", "negatives"] | None, replace(LABELED_ARE, needs=("alpha",))
    ] = None
    model: Annotated[
        str | None,
        Option(
            "For new rows scored by 'score': calibrate with the rows MODEL was trained on.",
            file="read",
            metavar="MODEL",
            excludes=("sketch",),
        ),
    ] = None
    sketch: Annotated[
        Names,
        Option(
            "For new rows, or for one part of the scores: calibrate with this sketch of all rows.",
            file="read",
            metavar="SKETCH",
        ),
    ] = ()
    groups_out: Annotated[str | None, GROUPS_OUT] = None
    group_column: Annotated[
        str | None,
        Option(
            "With --bounds: column of SCORES whose values mark similar rows (e.g. gene); widens "
            "the bounds.",
            also="--keep-together",
            heading="Posterior",
            metavar="NAME",
            needs=("bounds",),
            excludes=("model", "sketch"),
        ),
    ] = None
    wanted: Wanted = Wanted()
    out: Annotated[
        str,
        Option(
            "Posteriors to write: a table, or DIR/ for Parquet shards.",
            file="written",
            metavar="POSTERIOR",
        ),
    ]
    process: Annotated[Process, Without("on_failure")] = Process()


_NEEDS_COLUMNS = {"needs": ("keep_columns",)}


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """All settings of `audit`."""

    SHORT: ClassVar[Names] = (
        *("scores", "prior", "top", "rows", "labeled_rows"),
        *("keep_columns", "out", "seed"),
    )

    scores: Annotated[str, SCORES]
    prior: Annotated[str, PRIOR]
    top: Annotated[
        bool,
        Option(
            "Draw unlabeled rows that score like the top fifth of the labeled rows, where few "
            "verdicts narrow alpha most.",
            heading="Audit",
        ),
    ] = False
    rows: Annotated[
        int,
        Option("Number of unlabeled rows to draw, for alpha.", heading="Audit", range=(0, 100_000)),
    ] = 100
    labeled_rows: Annotated[
        int,
        Option("Number of labeled rows to draw, for beta.", heading="Audit", range=(0, 100_000)),
    ] = 0
    verdicts: Annotated[
        Names,
        Option(
            "Earlier audits of the same --scores and --prior; their rows are not drawn again "
            "(repeatable).",
            file="read",
            metavar="AUDIT",
        ),
    ] = ()
    keep_columns: Annotated[
        Names,
        Option(
            "Columns to show beside each row, from SCORES or from the tables given. By default, "
            "all extra columns of SCORES."
        ),
    ] = ()
    inputs: Annotated[  # the tables that the scores were made from
        Inputs,
        Without(*_OF_LABELS, "labeled_are", "id_column", "keep_columns", "group_column", "by"),
        Without("features", "drop_columns", "score_column"),
        Changes(
            labeled=_NEEDS_COLUMNS | {"help": "Table of labeled rows, for --keep-columns."},
            unlabeled=_NEEDS_COLUMNS | {"help": "Table of unlabeled rows, for --keep-columns."},
            negatives=_NEEDS_COLUMNS
            | {"help": "Table of known negatives, for --keep-columns if the scores have any."},
            table=_NEEDS_COLUMNS | {"help": "One table of all rows, for --keep-columns."},
            input_format=_NEEDS_COLUMNS,
            delimiter=_NEEDS_COLUMNS,
            decimal=_NEEDS_COLUMNS,
            sheet=_NEEDS_COLUMNS,
        ),
    ] = Inputs()
    seed: Annotated[int, SEED] = 0
    out: Annotated[str, Option("Table to write and fill in.", file="written", metavar="AUDIT")]
    process: Annotated[Process, Without("dask", "on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """All settings of `report`: a directory, or scores and their prior."""

    folder: Annotated[
        str | None,
        Option(
            "Directory of 'run' or 'calibrate', whose report is written anew.",
            file="read",
            is_argument=True,
            metavar="[DIR]",
        ),
    ] = None
    scores: Annotated[str | None, replace(SCORES, needs=("prior",))] = None
    prior: Annotated[str | None, replace(PRIOR, needs=("scores",))] = None
    provenance: Annotated[
        str | None,
        Option(
            "provenance.json of the run, to show its inputs and options.",
            file="read",
            metavar="FILE",
            needs=("scores",),
        ),
    ] = None
    target_alpha: Annotated[float | None, replace(TARGET_ALPHA, needs=("scores",))] = None
    out: Annotated[
        str | None, Option("Report to write.", file="written", metavar="REPORT.html")
    ] = None
    figures: Annotated[str | None, FIGURES] = None
    process: Annotated[Process, Without("dask", "on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class SummarizeSettings:
    """All settings of `summarize`."""

    priors: Annotated[
        Names,
        Option(
            "Priors written by 'estimate-prior' or 'run', one for each sample.",
            file="read",
            is_argument=True,
            metavar="PRIOR.json...",
        ),
    ]
    out: Annotated[
        str,
        Option(
            "Table to write.  [default: tab-separated on standard output]",
            file="written",
            metavar="TABLE",
        ),
    ] = "-"
    multiqc: Annotated[
        str | None,
        Option(
            "Also write a file that MultiQC shows in its general statistics.",
            file="written",
            metavar="NAME_mqc.json",
        ),
    ] = None
    process: Annotated[Process, Without("dask", "strict", "on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class SimulateSettings:
    """All settings of `simulate`."""

    out_dir: Annotated[str, OUT_DIR]
    alpha: Annotated[
        float,
        Option(
            "Fraction of positives among the unlabeled rows.", heading="Simulation", range=FRACTION
        ),
    ] = 0.2
    beta: Annotated[
        float,
        Option(
            "Fraction of positives among the labeled rows.", heading="Simulation", range=FRACTION
        ),
    ] = 0.95
    n_labeled: Annotated[
        int, Option("Number of labeled rows.", heading="Simulation", range=(1, 10**9))
    ] = 1000
    n_unlabeled: Annotated[
        int, Option("Number of unlabeled rows.", heading="Simulation", range=(1, 10**9))
    ] = 10_000
    n_negatives: Annotated[
        int, Option("Number of known negatives.", heading="Simulation", range=(0, 10**7))
    ] = 0
    n_features: Annotated[
        int, Option("Number of feature columns.", heading="Simulation", range=(1, 10**5))
    ] = 10
    selection: Annotated[
        float,
        Option(
            "Selection bias: ratio of the highest to the lowest labeling rate among three kinds "
            "of positives (1: none).",
            heading="Simulation",
            range=(1, 10**6),
            metavar="STRENGTH",
        ),
    ] = 1.0
    seed: Annotated[int, SEED] = 0
    process: Annotated[Process, Without("dask", "strict", "on_failure")] = Process()


# ---- Domains


@dataclass(frozen=True, kw_only=True)
class ApplySettings:
    """All settings of `apply`."""

    thresholds: Annotated[
        str,
        Option(
            "Thresholds written by 'calibrate', a table with level, points, score_from and "
            "score_to, or a published calibration such as pejaver2022:REVEL.",
            file="read",
            metavar="FILE|NAME",
        ),
    ]
    table: Annotated[str, Option("Rows to grade.", file="read", metavar="FILE")]
    layout: Layout = Layout()
    score_column: Annotated[
        str, replace(SCORE_COLUMN, help="Column with the predictor's score.", excludes=())
    ]
    by: Annotated[
        str | None,
        replace(
            BY,
            help="Column with the group of each row (e.g. gene), for thresholds by group. Groups "
            "without thresholds use those of '(other)'.",
            excludes=(),
        ),
    ] = None
    id_column: Annotated[Names, ID_COLUMN] = ()
    keep_columns: Annotated[Names, KEEP_COLUMNS] = ()
    na: Annotated[Names, NA] = ()
    add_points: Annotated[
        Names,
        Option(
            "Columns with points of independent criteria; points_total is their sum with these "
            "points."
        ),
    ] = ()
    out: Annotated[
        str,
        Option(
            "Table to write: IDs, score, level, points and kept columns; DIR/ for Parquet shards.",
            file="written",
            metavar="EVIDENCE",
        ),
    ]
    process: Annotated[Process, Without("strict", "on_failure")] = Process()


@dataclass(frozen=True, kw_only=True)
class MatchColumns:
    """What the user says of the tables of a search and their columns."""

    input_format: Annotated[str | None, replace(INPUT_FORMAT, choices=(*FORMATS, "pin"))] = None
    label_column: Annotated[
        str | None,
        replace(
            LABEL_COLUMN,
            help="For tables other than .pin files: column that marks decoys (1/0, true/false or "
            "yes/no).",
            needs=(),
        ),
    ] = None
    labeled_value: Annotated[
        Names,
        replace(
            LABELED_VALUE, help="Values in --label-column that mark decoys; all others are targets."
        ),
    ] = ()
    id_column: Annotated[Names, ID_COLUMN] = ()
    keep_columns: Annotated[Names, KEEP_COLUMNS] = ()
    group_column: Annotated[
        str | None,
        replace(
            GROUP_COLUMN,
            help="Keep matches with the same value together in cross-validation.  [default for "
            ".pin files: the scan]",
        ),
    ] = None
    features: Annotated[Names, FEATURES] = ()
    drop_columns: Annotated[Names, DROP_COLUMNS] = ()
    score_column: Annotated[str | None, SCORE_COLUMN] = None
    spectrum_columns: Annotated[
        Names,
        Option(
            "Columns that identify a spectrum; only its best match counts.  [default for .pin "
            "files: scan, mass and file]"
        ),
    ] = ()
    peptide_column: Annotated[
        str | None,
        Option(
            "Also roll matches up to peptides.  [default for .pin files: Peptide]",
            heading="Columns",
            metavar="NAME",
        ),
    ] = None
    protein_column: Annotated[
        str | None,
        Option(
            "Also roll matches up to proteins or protein groups.", heading="Columns", metavar="NAME"
        ),
    ] = None

    @property
    def names_roles(self) -> bool:
        """Whether they say which matches are decoys, or which compete."""
        return self.label_column is not None or bool(self.spectrum_columns)


@dataclass(frozen=True, kw_only=True)
class MatchSettings:
    """All settings of `matches`."""

    SHORT: ClassVar[Names] = (
        *("runs", "out_dir", "by", "model", "protein_column", "drop_columns", "seed"),
    )

    runs: Annotated[
        Names,
        Option(
            "Search results: .pin files or tables, directories of them, or quoted patterns.",
            file="read",
            is_argument=True,
            metavar="FILE...",
        ),
    ]
    columns: MatchColumns = MatchColumns()
    scoring: Annotated[
        ScoreSettings,
        Without("transform", "missing_score", "count_overlap"),
        Changes(
            max_train_rows={
                "help": "Train on a sample of at most this many matches of all runs; all are "
                "scored.  [default: 400000]"
            }
        ),
    ] = ScoreSettings()
    by: Annotated[
        str | None,
        replace(
            BY,
            help="Compute q-values and PEPs within the groups of this column. In .pin files, "
            "'charge' and 'modified' need no such column.",
            excludes=(),
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            "Score with the model of an earlier experiment instead of training one. Not for "
            "matches that it was trained on.",
            file="read",
            metavar="MODEL",
            excludes=(
                *("classifier", "max_train_rows", "features", "drop_columns", "score_column"),
                *("categorical", "na"),
            ),
        ),
    ] = None
    out_dir: Annotated[str, OUT_DIR]
    process: Annotated[
        Process,
        Without("on_failure"),
        Changes(
            dask={
                "help": "Use a Dask cluster (scheduler address or scheduler file); each worker "
                "takes one run at a time.",
                "excludes": (),
            }
        ),
    ] = Process()
    options: Mapping[str, Any] = field(default_factory=dict)  # as given, that affect results
    execution: Mapping[str, Any] = field(default_factory=dict)  # that do not
