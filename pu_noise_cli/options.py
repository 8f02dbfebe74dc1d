"""Groups of options that several commands share: classes, which the commands' own inherit from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import click

from .errors import StrictError, UsageError
from .notices import Notice
from .parameters import (
    INNER_SHARE,
    SHARE,
    Common,
    LazyChoice,
    NameList,
    NameLists,
    flag,
    joined,
    option,
    reads,
)
from .table_options import CarriedColumns, InputFormat, LabelValues, MissingScore, NamedTables

if TYPE_CHECKING:
    from .estimators import Settings
    from .evidence import Grading
    from .pin_tables import PinRoles
    from .prior import Prior
    from .rows import MatchColumns, Rows
    from .scores import Scores
    from .sketch import Sketch
    from .tables import Table
    from .transform.training import TransformSettings

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
    from .transform import CLASSIFIERS

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
        said = scores.labeled_negatives
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
        from .rows import Rows

        sets, names = self._tables()
        tables = [self.open_table(name) for name in names]
        for table, column in product(tables, by):
            table.require(column, "--by")
        pin = self._pin(tables)
        matches = self.matches(pin)
        features = joined(self.features)
        if self.score_column is not None:
            if features or self.transform:
                raise UsageError("--score-column goes with neither --features nor --transform")
            features = (self.score_column,)
        return Rows.matched(
            tables,
            sets=sets,
            features=features,
            drop=(*joined(self.drop_columns), *self._no_features(pin)),
            id_columns=joined(self.id_column) or ((pin.id,) if pin else ()),
            group_column=self.group_column or (pin.scan if pin else None),
            label_column=self.label_column or (pin.label if pin and self.table else None),
            label_values=self.label_values(self.label_column),
            keep=(*joined(self.keep_columns), *by),
            matches=matches,
            wanted_by="--features" if self.score_column is None else "--score-column",
        )

    @property
    def of_pin(self) -> bool:
        """Whether the tables are said to be .pin files, in which columns are known by name."""
        from .files import says_pin

        names = (self.labeled, self.unlabeled, self.negatives, self.table)
        return self.input_format == "pin" or any(map(says_pin, filter(None, names)))

    @property
    def labeled_negatives(self) -> bool:
        return super().labeled_negatives or (self.labeled_are is None and self.of_pin)

    @property
    def of_decoys(self) -> bool:
        """Whether the labeled rows are decoys, each of which is certainly a negative."""
        return self.of_pin

    def _pin(self, tables: Iterable[Table]) -> PinRoles | None:
        """What the columns of .pin files are, if the tables are such."""
        from .pin_tables import PinRoles

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
        return PinRoles.of(found[0].name, found[0].columns) if found else None

    def _no_features(self, pin: PinRoles | None) -> list[str]:
        """The columns of a .pin file that are no features, unless they are said to be."""
        named = {*joined(self.features), *joined(self.id_column), *joined(self.keep_columns)}
        return [] if pin is None else [c for c in (pin.label, *pin.others) if c not in named]

    def matches(self, pin: PinRoles | None) -> MatchColumns | None:
        """Which rows belong to one spectrum, for commands that care."""
        return None

    def _tables(self) -> tuple[list[int], list[str]]:
        """The names of the tables, and the set that each has the rows of."""
        from .sketch import LABELED, NEGATIVE, UNLABELED

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
        from .transform.training import TransformSettings

        default = TransformSettings()
        usual = DECOYS_CLASSIFIER if self.of_decoys else default.classifier
        return TransformSettings(
            classifier=self.classifier or usual,
            train=False if self.score_column is not None else self.transform,
            lower_is_positive=self.lower_is_positive,
            skip_missing=self.skip_missing,
            labeled_negatives=self.labeled_negatives,
            decoys=self.of_decoys,
            max_train_rows=self.max_train_rows or default.max_train_rows,
            na=self.na,
            categorical=joined(self.categorical),
            seed=self.seed,
            threads=self.threads,
            only_to_learn=tuple(self.given(*self.only_to_learn)),
        )


def _methods() -> Iterable[str]:
    from .estimators import ESTIMATORS

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
    elkan_noto_estimator: str | None = option(
        "--elkan-noto-estimator",
        "Estimation",
        "Which of Elkan and Noto's estimators.  [default: e1]",
        type=click.Choice(["e1", "e2", "e3"]),
    )
    elbow: str | None = option(
        "--elbow",
        "Estimation",
        "How AlphaMax finds the elbow: robustly, or as its authors do, for comparison. "
        "[default: robust]",
        type=click.Choice(["robust", "authors"]),
    )
    sample: str | None = option(
        "--sample", "Output", "Sample name to put into the JSON.", metavar="NAME"
    )

    @property
    def chosen_method(self) -> str:
        return self.method or "auto"

    def estimation_settings(self) -> Settings:
        """What the user has fixed about the estimation; nothing that the method would ignore."""
        from .estimators import ESTIMATORS, Settings

        self._check_ranges()
        method = self.chosen_method
        methods = ESTIMATORS.values() if method == "all" else [ESTIMATORS[method]]
        known = {name for method in methods for name in method.options}
        own = {name for method in ESTIMATORS.values() for name in method.options}
        if ignored := self.given(*(own - known)):
            raise UsageError(f"{ignored[0]} does nothing with --method {method}")
        chosen = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        negatives = self.labeled_negatives
        return Settings(beta=self.beta, seed=self.seed, labeled_negatives=negatives, **chosen)

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


def _calibrators() -> Iterable[str]:
    from .calibration import CALIBRATORS

    return CALIBRATORS


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
    calibrator: str = option(
        "--calibrator",
        "Posterior",
        "How scores become tau, the probability of being labeled.",
        type=LazyChoice(_calibrators),
        default="isotonic",
    )

    def read_prior(self, scores: Scores) -> Prior:
        """The prior that was estimated, or the user's own for some scores."""
        from .prior import Prior, read_prior

        if (self.prior is None) == (self.alpha is None):
            raise UsageError("give either --prior, or --alpha (and --beta)")
        if self.prior is not None:
            if stated := self.given("beta", "labeled_are"):
                raise UsageError(f"{stated[0]} goes with --alpha; --prior has its own")
            return read_prior(self.prior)
        negatives = self.negatives_in(scores)
        return Prior.stated(*stated_shares(self.alpha, self.beta, negatives), negatives)


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
        from .evidence import Grading
        from .files import read_rule

        if self.evidence is None:
            return None
        grading = Grading(self.evidence, read_rule(self.evidence), self.target_alpha)
        grading.check()
        return grading
