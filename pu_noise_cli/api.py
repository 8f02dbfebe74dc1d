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
    import pandas as pd
    import pyarrow as pa

    from .notices import Notice
    from .numerics import FloatArray, IntArray
    from .pipeline import Analysis, Request
    from .posterior.calibration import Calibration
    from .posterior.groups import GroupPosteriors
    from .posterior.table import DoubtfulRows
    from .prior.base import Estimate
    from .scale.engine import Engine
    from .tables.rows import Chunk, Rows

    TableLike: TypeAlias = pd.DataFrame | pa.Table


@dataclass(frozen=True, eq=False)
class Estimated:
    """What two tables say of α and β, and of each of their rows.

    `labeled`, `unlabeled` and `negatives` hold the columns of POSTERIOR (score, tau, posterior, lr,
    fdr) for the rows of each table, in their order and with their index. With `by`, `groups` holds
    the columns of GROUPS.
    """

    labeled: pd.DataFrame
    unlabeled: pd.DataFrame
    negatives: pd.DataFrame | None
    rows: Rows
    analysis: Analysis
    calibration: Calibration
    doubtful: DoubtfulRows
    by_group: GroupPosteriors | None = None

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
    def groups(self) -> pd.DataFrame | None:
        """What was estimated of each group of `by`: the columns of GROUPS, by its name."""
        if self.by_group is None:
            return None
        return self.by_group.groups.table().to_pandas().set_index("group")

    @property
    def prior(self) -> dict[str, Any]:
        """The content of prior.json."""
        return self.analysis.prior.to_json()

    def score(self, new_rows: TableLike, threads: int = 1) -> pd.DataFrame:
        """The columns of POSTERIOR for rows that the score was not learned from."""
        import numpy as np

        from .scale.engine import ahead
        from .tables.rows import Rows

        model, by = self.analysis.trained.model, self.rows.kept
        features = [column.name for column in model.encoding.columns]
        table = _table("new rows", new_rows, _column_names(new_rows) - {*features, *by})
        rows = Rows.from_tables([table], features=features, keep=by, wanted_by="model")
        scores, places = [np.empty(0)], [np.empty(0, np.int64)]
        for chunk, found in ahead(model.score, rows.chunks([*features, *by]), threads):
            scores.append(found)
            places.append(_places(chunk, self.by_group))
        parts = np.concatenate(scores), np.concatenate(places)
        frame = _frame(self.calibration, self.by_group, *parts)
        return _indexed(frame.drop(columns="posterior_labeled"), new_rows)

    def report(self, file: str) -> None:
        """Write the report as one HTML file."""
        from .posterior.bounds import bounds
        from .report.content import report_content
        from .report.page import render
        from .tables.results import provenance
        from .tables.writing import write_text

        trained, prior, calibration = self.analysis.trained, self.analysis.prior, self.calibration
        content = report_content(
            prior,
            calibration,
            {"posterior": calibration.posterior, "fdr": calibration.fdr},
            bounds(calibration, prior.seed).posterior,
            doubtful=self.doubtful.kept,
            provenance=provenance(
                self.rows,
                counts=trained.counts,
                columns=trained.columns,
                score_column=None if trained.learned else trained.columns[0].column,
                notices=trained.notices,
                options={},
                execution={},
            ),
            groups=None if self.by_group is None else self.by_group.groups,
        )
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
    by: str | None = None,
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

    A third table may hold known negatives. With `by`, a column that names groups of rows, each
    group has an α of its own, by which its rows have their posteriors. The options are those of
    `punoise run`, and so are the numbers. Tables that cannot be used raise errors.InputError, those
    that give no estimate errors.EstimationError.
    """
    from .pipeline import Request
    from .prior.base import Settings
    from .score.training import TransformSettings

    _check_choices(labeled_are, method, classifier, missing_score or "stop")
    _check_ranges(beta=beta, seed=seed, threads=threads, max_train_rows=max_train_rows)
    turned = labeled_are == "negatives"
    given = _by_set(labeled, unlabeled, negatives, labeled_are)
    features = features if score_column is None else (score_column,)
    _check_columns(given, drop_columns, keep_columns)
    aside = {*drop_columns, *keep_columns} - {*features, group_column, by}
    rows = _rows(
        given,
        aside,
        by,
        features=features,
        group_column=group_column,
        labeled_class="negative" if turned else "positive",
    )
    settings = TransformSettings(
        classifier=classifier,
        train=False if score_column is not None else transform,
        lower_is_positive=lower_is_positive,
        skip_missing=None if missing_score is None else missing_score == "skip",
        max_train_rows=max_train_rows,
        na=tuple(na),
        categorical=tuple(categorical),
        seed=seed,
        threads=threads,
        only_to_learn=() if group_column is None else ("group_column",),
    )
    estimation = Settings(beta=beta, seed=seed)
    request = Request(settings, estimation, method, sample)
    return _estimated(rows, request, given, keep_columns)


def _estimated(
    rows: Rows, request: Request, given: Mapping[int, TableLike], keep: Sequence[str]
) -> Estimated:
    """What rows say, with a frame for each of the tables given, which has columns of it too."""
    from threadpoolctl import threadpool_limits

    from .pipeline import analyse
    from .posterior.calibration import calibrate
    from .prior.document import shares_for
    from .scale.engine import Engine, Local
    from .tables.rows import LABELED, NEGATIVE, UNLABELED

    threads = request.transform.threads
    engine = Engine(Local(threads))
    with threadpool_limits(1, user_api="blas"):  # see blas.py
        analysis = analyse(rows, request, engine)
        sketch, shares, _ = shares_for(analysis.prior, analysis.sketch)
        calibration = calibrate(sketch, shares)
        by_group = _by_group(rows, analysis, calibration, engine)
        frames, doubtful = _posteriors(rows, analysis, calibration, by_group, threads)
    of_tables = zip(given.items(), frames, strict=True)
    indexed = {code: _indexed(frame, table, keep) for (code, table), frame in of_tables}
    found = (indexed[LABELED], indexed[UNLABELED], indexed.get(NEGATIVE))
    return Estimated(*found, rows, analysis, calibration, doubtful, by_group)


def _by_group(
    rows: Rows, analysis: Analysis, calibration: Calibration, engine: Engine
) -> GroupPosteriors | None:
    """What scores say in each group, where a column that names groups is carried through."""
    from .posterior.groups import GroupPosteriors, estimate_groups

    if not rows.kept:
        return None
    (by,) = rows.kept
    scorer = analysis.trained.scorer
    groups = estimate_groups(rows, by, calibration, engine, scorer)
    return GroupPosteriors(groups, calibration)


def _rows(
    given: Mapping[int, TableLike], aside: Collection[str], by: str | None, **columns: Any
) -> Rows:
    """The rows of tables in memory, by the code of their set, without the columns set aside.

    Of other columns, that which names groups is carried through.
    """
    from .posterior.groups import check_by
    from .tables.rows import SETS, Rows

    tables = [_table(SETS[code], table, aside) for code, table in given.items()]
    if by is None:
        return Rows.from_tables(tables, sets=list(given), **columns)
    rows = Rows.from_tables(tables, sets=list(given), keep=[by], **columns)
    check_by(rows, by)
    return rows


def _by_set(
    labeled: TableLike, unlabeled: TableLike, negatives: TableLike | None, labeled_are: str
) -> dict[int, TableLike]:
    """The tables by the code of the set that their rows are of."""
    from .errors import UsageError
    from .tables.rows import LABELED, NEGATIVE, UNLABELED

    if negatives is None:
        return {LABELED: labeled, UNLABELED: unlabeled}
    if labeled_are == "negatives":
        raise UsageError("known negatives go with labeled positives")
    return {LABELED: labeled, NEGATIVE: negatives, UNLABELED: unlabeled}


def _check_choices(labeled_are: str, method: str, classifier: str, missing_score: str) -> None:
    """Stop where a choice is not one of those there are."""
    from .errors import UsageError
    from .prior.base import ESTIMATORS
    from .score.classifiers import CLASSIFIERS

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
    rows: Rows,
    analysis: Analysis,
    calibration: Calibration,
    by_group: GroupPosteriors | None,
    threads: int,
) -> tuple[list[pd.DataFrame], DoubtfulRows]:
    """The frame of each table, and the labels to check first."""
    import numpy as np

    from .posterior.table import DoubtfulRows

    scores: list[list[Any]] = [[] for _ in rows.tables]
    places: list[list[Any]] = [[] for _ in rows.tables]
    doubtful = DoubtfulRows(label_sign=calibration.label_sign)
    for chunk, found in analysis.trained.scorer.score_all(rows, threads):
        scores[chunk.table].append(found)
        places[chunk.table].append(_places(chunk, by_group))
        doubtful.add(rows.ids(chunk), found, chunk.labeled, chunk.first_row)
    frames = [
        _frame(calibration, by_group, *map(np.concatenate, parts))
        for parts in zip(scores, places, strict=True)
    ]
    return [frames[0], *(f.drop(columns="posterior_labeled") for f in frames[1:])], doubtful


def _places(chunk: Chunk, by_group: GroupPosteriors | None) -> IntArray:
    """The place of each row's group, shape (n,); 0 where there are no groups."""
    import numpy as np

    from .posterior.groups import group_names

    if by_group is None:
        return np.zeros(chunk.batch.num_rows, np.int64)
    return by_group.groups.places(group_names(chunk, by_group.groups.by))


def _frame(
    calibration: Calibration,
    by_group: GroupPosteriors | None,
    scores: FloatArray,
    places: IntArray,
) -> pd.DataFrame:
    """The columns of POSTERIOR for scores and the places of groups, both of shape (n,)."""
    import pandas as pd

    from .posterior.table import posterior_columns

    cells = calibration.sketch.cell_index(scores)
    of_cells = posterior_columns(calibration)
    columns = {name: column[cells] for name, column in of_cells.items()}
    if by_group is not None:
        found = by_group.columns(places, cells)
        columns = {name: found[name] for name in of_cells}
    frame = pd.DataFrame({"score": scores, **columns})
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
    from .tables.reading import table_in_memory

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
