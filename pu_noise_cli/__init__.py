"""punoise: class priors and posteriors from noisy positives and unlabeled rows.

import pu_noise_cli as punoise

found = punoise.estimate(labeled, unlabeled)        # two data frames, or Arrow tables
found.alpha, found.alpha_ci, found.beta             # as `punoise run` gives them
found.unlabeled["posterior"]                        # with the caller's index
found.score(new_rows)                               # rows that were not there before
found.report("report.html")
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from .analysis import Analysis, Request
    from .calibration import Calibration
    from .estimators import Estimate
    from .notices import Notice
    from .posteriors import DoubtfulRows
    from .rows import Rows

    TableLike: TypeAlias = pd.DataFrame | pa.Table

__version__ = "0.1.0"
__all__ = ["Estimated", "__version__", "estimate"]


@dataclass(frozen=True, eq=False)
class Estimated:
    """What two tables say of α and β, and of each of their rows.

    `labeled`, `unlabeled` and `negatives` hold the columns of POSTERIOR (score, tau, posterior, lr,
    fdr) for the rows of each table, in their order and with their index.
    """

    labeled: pd.DataFrame
    unlabeled: pd.DataFrame
    negatives: pd.DataFrame | None
    rows: Rows
    analysis: Analysis
    calibration: Calibration
    doubtful: DoubtfulRows

    @property
    def answer(self) -> Estimate:
        """The estimate of the method that was asked for."""
        assert self.analysis.prior.answer is not None  # else estimate() has raised
        return self.analysis.prior.answer

    @property
    def alpha(self) -> float:
        """The share of positives among the unlabeled rows."""
        return self.answer.alpha

    @property
    def alpha_ci(self) -> tuple[float, float] | None:
        """The 95 % interval of α."""
        return self.answer.alpha_ci

    @property
    def beta(self) -> float:
        """The share of the labeled rows that are what the labels say."""
        return self.answer.beta

    @property
    def beta_ci(self) -> tuple[float, float] | None:
        """The 95 % interval of β."""
        return self.answer.beta_ci

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """What to be wary of, as (code, message)."""
        return (*self.analysis.prior.notices, *self.calibration.notices)

    @property
    def prior(self) -> dict[str, Any]:
        """The content of prior.json."""
        return self.analysis.prior.to_json()

    def score(self, new_rows: TableLike, threads: int = 1) -> pd.DataFrame:
        """The columns of POSTERIOR for rows that the score was not learned from."""
        import numpy as np

        from .rows import Rows
        from .transform.threads import ahead

        model = self.analysis.trained.model
        features = [column.name for column in model.encoding.columns]
        table = _table("new rows", new_rows, _column_names(new_rows) - {*features})
        rows = Rows.matched([table], features=features, wanted_by="the model")
        scores = [found for _, found in ahead(model.score, rows.chunks(rows.features), threads)]
        frame = _frame(self.calibration, np.concatenate([[], *scores]))
        return _indexed(frame.drop(columns="posterior_labeled"), new_rows)

    def report(self, file: str) -> None:
        """Write the report as one HTML file."""
        from .outputs import write_text
        from .provenance import provenance
        from .report.content import content_of_run
        from .report.page import render

        made_of = provenance(self.rows, self.analysis.trained, {}, {})
        content = content_of_run(self.analysis.prior, self.calibration, self.doubtful, made_of)
        write_text(str(file), render(content))


def estimate(
    labeled: TableLike,
    unlabeled: TableLike,
    *,
    negatives: TableLike | None = None,
    labeled_are: Literal["positives", "negatives"] = "positives",
    features: Sequence[str] = (),
    drop_columns: Sequence[str] = (),
    keep_columns: Sequence[str] = (),
    group_column: str | None = None,
    score_column: str | None = None,
    lower_is_positive: bool = False,
    missing_score: Literal["stop", "skip"] | None = None,
    transform: bool | None = None,
    na: Sequence[str] = (),
    categorical: Sequence[str] = (),
    classifier: str = "standard",
    max_train_rows: int = 100_000,
    method: str = "auto",
    beta: float | None = None,
    sample: str | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Estimated:
    """α, β and posteriors from a table of labeled rows and one of unlabeled rows.

    A third table may hold known negatives. The options are those of `punoise run`, and so are the
    numbers. Tables that cannot be used raise errors.InputError, those that give no estimate
    errors.EstimationError.
    """
    from .analysis import Request
    from .estimators import Settings
    from .transform.training import TransformSettings

    _check_choices(labeled_are, method, classifier, missing_score or "stop")
    _check_ranges(beta=beta, seed=seed, threads=threads, max_train_rows=max_train_rows)
    turned = labeled_are == "negatives"
    given = _by_set(labeled, unlabeled, negatives, labeled_are)
    features = features if score_column is None else (score_column,)
    _check_columns(given, drop_columns, keep_columns)
    aside = {*drop_columns, *keep_columns} - {*features, group_column}
    rows = _rows(given, aside, features=features, group_column=group_column)
    settings = TransformSettings(
        classifier=classifier,
        train=False if score_column is not None else transform,
        lower_is_positive=lower_is_positive,
        skip_missing=None if missing_score is None else missing_score == "skip",
        labeled_negatives=turned,
        max_train_rows=max_train_rows,
        na=tuple(na),
        categorical=tuple(categorical),
        seed=seed,
        threads=threads,
        only_to_learn=() if group_column is None else ("group_column",),
    )
    estimation = Settings(beta=beta, seed=seed, labeled_negatives=turned)
    request = Request(settings, estimation, method, sample)
    return _estimated(rows, request, given, keep_columns)


def _estimated(
    rows: Rows, request: Request, given: Mapping[int, TableLike], keep: Sequence[str]
) -> Estimated:
    """What rows say, with a frame for each of the tables given, which has columns of it too."""
    from threadpoolctl import threadpool_limits

    from .analysis import analyse
    from .calibration import calibrate
    from .engine import Engine, Local
    from .sketch import LABELED, NEGATIVE, UNLABELED

    threads = request.transform.threads
    with threadpool_limits(1, user_api="blas"):  # see blas.py
        analysis = analyse(rows, request, Engine(Local(threads)))
        calibration = calibrate(analysis.sketch, analysis.prior.shares(analysis.sketch)[0])
        frames, doubtful = _posteriors(rows, analysis, calibration, threads)
    of_tables = zip(given.items(), frames, strict=True)
    indexed = {code: _indexed(frame, table, keep) for (code, table), frame in of_tables}
    found = (indexed[LABELED], indexed[UNLABELED], indexed.get(NEGATIVE))
    return Estimated(*found, rows, analysis, calibration, doubtful)


def _rows(given: Mapping[int, TableLike], aside: Collection[str], **columns: Any) -> Rows:
    """The rows of tables in memory, by the code of their set, without the columns set aside."""
    from .rows import Rows
    from .sketch import SETS

    tables = [_table(SETS[code], table, aside) for code, table in given.items()]
    return Rows.matched(tables, sets=list(given), **columns)


def _by_set(
    labeled: TableLike, unlabeled: TableLike, negatives: TableLike | None, labeled_are: str
) -> dict[int, TableLike]:
    """The tables by the code of the set that their rows are of."""
    from .errors import UsageError
    from .sketch import LABELED, NEGATIVE, UNLABELED

    if negatives is None:
        return {LABELED: labeled, UNLABELED: unlabeled}
    if labeled_are == "negatives":
        raise UsageError("known negatives go with labeled positives")
    return {LABELED: labeled, NEGATIVE: negatives, UNLABELED: unlabeled}


def _check_choices(labeled_are: str, method: str, classifier: str, missing_score: str) -> None:
    """Stop where a choice is not one of those there are."""
    from .errors import UsageError
    from .estimators import ESTIMATORS
    from .transform import CLASSIFIERS

    for name, chosen, known in (
        ("labeled_are", labeled_are, ("positives", "negatives")),
        ("method", method, (*ESTIMATORS, "all")),
        ("classifier", classifier, tuple(CLASSIFIERS)),
        ("missing_score", missing_score, ("stop", "skip")),
    ):
        if chosen not in known:
            raise UsageError(f"{name} is one of {', '.join(known)}, not {chosen!r}")


def _check_ranges(**numbers: float | None) -> None:
    """Stop where a number is outside of what the command would take; None is always inside."""
    from .errors import UsageError

    ranges = {
        "beta": (0, 1),
        "seed": (0, 2**63 - 1),
        "threads": (1, 4096),
        "max_train_rows": (100, 2**31),
    }
    for name, value in numbers.items():
        low, high = ranges[name]
        if value is not None and not low <= value <= high:
            raise UsageError(f"{name} is from {low} to {high}, not {value}")


def _check_columns(given: dict[int, TableLike], drop: Sequence[str], keep: Sequence[str]) -> None:
    """Stop where no table has a column that is to be dropped, or not each one that is to stay."""
    from .errors import InputError

    there = [_column_names(table) for table in given.values()]
    for column in drop:
        if not any(column in names for names in there):
            raise InputError(f"no table has a column {column!r} to drop")
    for column in keep:
        if not all(column in names for names in there):
            raise InputError(f"not every table has a column {column!r} to keep")


def _column_names(given: TableLike) -> set[str]:
    names: Iterable[str] = getattr(given, "column_names", getattr(given, "columns", ()))
    return set(names)


def _posteriors(
    rows: Rows, analysis: Analysis, calibration: Calibration, threads: int
) -> tuple[list[pd.DataFrame], DoubtfulRows]:
    """The frame of each table, and the labels to check first."""
    import numpy as np

    from .posteriors import DoubtfulRows

    scores: list[list[Any]] = [[] for _ in rows.tables]
    doubtful = DoubtfulRows(labeled_negatives=analysis.prior.labeled_negatives)
    for chunk, found in analysis.trained.scorer.score_all(rows, threads):
        scores[chunk.table].append(found)
        doubtful.add(rows.ids(chunk), found, chunk.labeled, chunk.first_row)
    frames = [_frame(calibration, np.concatenate(part)) for part in scores]
    return [frames[0], *(f.drop(columns="posterior_labeled") for f in frames[1:])], doubtful


def _frame(calibration: Calibration, scores: np.ndarray[Any, Any]) -> pd.DataFrame:
    """The columns of POSTERIOR for scores of shape (n,)."""
    import pandas as pd

    from .posteriors import PosteriorRequest, posterior_columns

    cells = calibration.sketch.cells_of(scores)
    columns = posterior_columns(calibration, PosteriorRequest())
    frame = pd.DataFrame({"score": scores, **{name: c[cells] for name, c in columns.items()}})
    return frame.where(frame["score"].notna())  # nothing is known of a row without a score


def _indexed(frame: pd.DataFrame, like: TableLike, keep: Sequence[str] = ()) -> pd.DataFrame:
    """A frame with the index of the table that it is made from, where that has one, and columns."""
    import pandas as pd
    import pyarrow as pa

    columns = list(dict.fromkeys(keep))
    if isinstance(like, pa.Table):
        kept = like.select(columns).to_pandas()
    else:
        frame, kept = frame.set_index(like.index), like[columns]
    return pd.concat([frame, kept], axis=1) if columns else frame


def _table(name: str, given: TableLike, aside: Collection[str] = ()) -> Any:
    """A table in memory, without some columns, as one that can be read like any other."""
    import pyarrow as pa

    from .errors import InputError
    from .tables import table_in_memory

    try:
        if isinstance(given, pa.Table):
            table = given.select([column for column in given.column_names if column not in aside])
        else:
            used = [column not in aside for column in given.columns]
            table = pa.Table.from_pandas(given.loc[:, used], preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError) as error:
        raise InputError(
            f"{name}: not a data frame or Arrow table that can be read ({error})"
        ) from error
    return table_in_memory(name, table)
