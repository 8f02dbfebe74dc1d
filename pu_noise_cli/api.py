"""The Python interface: data frames in, data frames out, on the steps of the pipeline.

import pu_noise_cli as punoise

result = punoise.estimate(labeled, unlabeled)       # two data frames, or Arrow tables
result.alpha, result.alpha_ci, result.beta          # as `punoise run` gives them
result.unlabeled["posterior"]                       # with the caller's index
result.score(new_rows)                              # rows that were not there before
result.report("report.html")
punoise.apply(variants, "pejaver2022:REVEL", "REVEL")   # levels of evidence, and their points
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .notices import Notice
    from .numerics import FloatArray
    from .pipeline import Posteriors, ScoredRows
    from .posterior.candidates import ListedRows
    from .posterior.table import PosteriorRows
    from .prior.document import Prior
    from .tables.reading import Table
    from .tables.rows import Chunk, Rows

    TableLike: TypeAlias = pd.DataFrame | pa.Table

Settings = TypeVar("Settings")
RANGES = {"beta": (0, 1), "seed": (0, 2**63 - 1), "threads": (1, 4096)}
RANGES |= {"purity": (0, 1), "max_train_rows": (100, 2**31)}


@dataclass(frozen=True, eq=False)
class Estimated:
    """Alpha, beta and the posterior of each row.

    `labeled`, `unlabeled` and `negatives` hold the columns of POSTERIOR (score, tau, posterior, lr,
    fdr) for the rows of each table, in their order and with their index. With `by`, `groups` holds
    the columns of GROUPS.
    """

    labeled: pd.DataFrame
    unlabeled: pd.DataFrame
    negatives: pd.DataFrame | None
    document: Prior
    scored: ScoredRows
    posteriors: Posteriors
    listed: ListedRows  # candidates, and labels to check

    @property
    def prior(self) -> dict[str, Any]:
        """The content of prior.json."""
        return self.document.to_json()

    @property
    def alpha(self) -> float:
        """The fraction of positives among the unlabeled rows."""
        assert self.document.alpha is not None  # or estimate() would have raised
        return self.document.alpha

    @property
    def alpha_ci(self) -> tuple[float, float] | None:
        """The 95% interval of alpha."""
        return self.document.alpha_ci

    @property
    def beta(self) -> float:
        """The fraction of the labels that are right."""
        assert self.document.beta is not None
        return self.document.beta

    @property
    def beta_ci(self) -> tuple[float, float] | None:
        """The 95% interval of beta."""
        return self.document.beta_ci

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Warnings, each with a code and a message."""
        return (*self.document.notices, *self.posteriors.notices)

    @property
    def groups(self) -> pd.DataFrame | None:
        """The columns of GROUPS, by group."""
        by_group = self.posteriors.by_group
        return None if by_group is None else by_group.groups.table().to_pandas().set_index("group")

    def score(self, new_rows: TableLike, threads: int = 1) -> pd.DataFrame:
        """The columns of POSTERIOR for rows that the score was not learned from."""
        from .errors import python_spelling
        from .scale.engine import ahead
        from .tables.rows import Rows

        trained, rows = self.scored.trained, self.scored.rows
        assert trained is not None
        assert rows is not None
        kept = rows.kept
        features = [column.name for column in trained.model.encoding.columns]
        unused = _column_names(new_rows) - {*features, *kept}
        with python_spelling():
            table = _open("new rows", new_rows, unused)
            rows = Rows.from_tables([table], features=features, keep=kept, wanted_by="the model")
            chunks = ahead(trained.model.score, rows.chunks([*features, *kept]), threads)
            (frame,) = _frames(self.posteriors, rows, chunks)
        return _indexed(frame.drop(columns="posterior_labeled"), new_rows)

    def report(self, file: str) -> None:
        """Write the report as one HTML file."""
        from threadpoolctl import threadpool_limits

        from . import pipeline
        from .errors import python_spelling
        from .tables.writing import write_text

        trained, rows = self.scored.trained, self.scored.rows
        assert trained is not None
        assert rows is not None
        with python_spelling(), threadpool_limits(1, user_api="blas"):
            made_of = pipeline.provenance(rows, trained, {}, {})
            found = self.posteriors
            page = pipeline.sample_report(self.document, found, None, self.listed, made_of)
        write_text(str(file), page.html())


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
    classifier: str | None = None,
    max_train_rows: int | None = None,
    count_overlap: bool = False,
    method: str | None = None,
    beta: float | None = None,
    purity: float | None = None,
    alpha_between: tuple[float, float] | None = None,
    beta_between: tuple[float, float] | None = None,
    sample: str | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Estimated:
    """Estimate alpha, beta and posteriors from a table of labeled and one of unlabeled rows.

    A third table may hold known negatives. With `by`, a column that names groups of rows, each
    group has its own alpha. The options are those of `punoise run`, and so are the numbers.

    Returns
    -------
    Estimated

    Raises
    ------
    errors.InputError
        If a table cannot be used.
    errors.EstimationError
        If the tables give no estimate.
    """
    options = {name: value for name, value in locals().items() if value is not None}
    from threadpoolctl import threadpool_limits

    from . import pipeline
    from .errors import python_spelling
    from .scale.engine import Engine

    with python_spelling(), threadpool_limits(1, user_api="blas"):
        _check(options)
        tables = {"labeled": labeled, "negatives": negatives, "unlabeled": unlabeled}
        tables = {name: table for name, table in tables.items() if table is not None}
        _check_columns(tables, drop_columns, keep_columns)
        used = {*features, score_column, group_column, by}
        unused = {*drop_columns, *keep_columns} - used
        opened = {name: _open(name, table, unused) for name, table in tables.items()}
        inputs = _pick(
            pipeline.Inputs, {**options, **opened, "drop_columns": (), "keep_columns": ()}
        )
        engine = Engine(threads)
        rows = pipeline.open_rows(inputs)
        trained = pipeline.train(rows, _pick(pipeline.ScoreSettings, options), engine)
        scored = pipeline.score_rows(rows, trained, engine)
        prior = pipeline.estimate(scored, _pick(pipeline.PriorSettings, options), engine)
        wanted = _pick(pipeline.Wanted, options)
        posteriors = pipeline.posteriors(scored, prior, wanted, engine, bounded=True)
        counts = posteriors.step.no_rows(rows)
        chunks = _counted(posteriors, counts, rows, trained.scorer.score_all(rows, threads))
        frames = dict(zip(opened, _frames(posteriors, rows, chunks), strict=True))
    for name in frames.keys() - {"labeled"}:
        frames[name] = frames[name].drop(columns="posterior_labeled")
    indexed = {name: _indexed(frames[name], tables[name], keep_columns) for name in frames}
    return Estimated(
        indexed["labeled"],
        indexed["unlabeled"],
        indexed.get("negatives"),
        prior,
        scored,
        posteriors,
        counts.listed,
    )


def apply(
    table: TableLike,
    thresholds: str,
    score_column: str,
    *,
    add_points: Sequence[str] = (),
    na: Sequence[str] = (),
) -> pd.DataFrame:
    """The level of evidence of each row and its points, as `punoise apply` gives them.

    Parameters
    ----------
    thresholds
        A file of thresholds, or the name of a published calibration, such as pejaver2022:REVEL.
    add_points
        Columns of points of independent criteria, to be summed in `points_total`.

    Returns
    -------
    The columns `score`, `level`, `points`, with the index of the table.
    """
    import pyarrow as pa

    from .errors import InputError, python_spelling
    from .evidence.apply import LevelRanges, WriteEvidence
    from .tables.rows import Rows

    with python_spelling():
        ranges = LevelRanges.read(str(thresholds))
        step = WriteEvidence(ranges, score_column, tuple(add_points), tuple(na))
        unused = _column_names(table) - {*step.columns}
        rows = Rows.from_tables([_open("table", table, unused)], features=step.columns)
        batches = []
        for chunk in rows.chunks(step.columns):
            scores, columns = step.evidence(chunk)
            scored = {"score": pa.array(scores, from_pandas=True), **columns}
            batches.append(pa.RecordBatch.from_pydict(scored))
        if not batches:
            raise InputError("table: has no rows")
    return _indexed(pa.Table.from_batches(batches).to_pandas(), table)


def _pick(settings: type[Settings], options: dict[str, Any]) -> Settings:
    """Settings whose fields are set by the options of the same names."""
    names = {field.name for field in fields(settings)}  # type: ignore[arg-type]
    return settings(**{name: value for name, value in options.items() if name in names})


def _check(options: dict[str, Any]) -> None:
    """Stop where a choice does not exist or a number is out of range."""
    from . import pipeline
    from .errors import UsageError, option

    choices = {
        "labeled_are": ("positives", "negatives"),
        "missing_score": ("stop", "skip"),
        "method": tuple(pipeline.registered("methods")),
        "classifier": tuple(pipeline.registered("classifiers")),
    }
    for name, known in choices.items():
        if name in options and options[name] not in known:
            raise UsageError(
                f"{option(name)}{options[name]!r}: one of {', '.join(known)} is needed"
            )
    for name, (low, high) in RANGES.items():
        if name in options and not low <= options[name] <= high:
            raise UsageError(f"{option(name)}{options[name]}: must be from {low} to {high}")


def _check_columns(tables: dict[str, TableLike], drop: Sequence[str], keep: Sequence[str]) -> None:
    """Stop where a column to drop is in no table, or one to keep not in each."""
    from .errors import InputError

    names = [_column_names(table) for table in tables.values()]
    for column in drop:
        if not any(column in known for known in names):
            raise InputError(f"no table has a column {column!r} to drop")
    for column in keep:
        if not all(column in known for known in names):
            raise InputError(f"not every table has a column {column!r} to keep")


def _column_names(table: TableLike) -> set[str]:
    names: Iterable[str] = getattr(table, "column_names", getattr(table, "columns", ()))
    return set(names)


def _open(name: str, table: TableLike, unused: Collection[str]) -> Table:
    """A table in memory, without some columns, to be read as any other."""
    import pyarrow as pa

    from .errors import InputError
    from .tables.reading import table_in_memory

    try:
        if isinstance(table, pa.Table):
            arrow = table.select([c for c in table.column_names if c not in unused])
        else:
            used = [column not in unused for column in table.columns]
            arrow = pa.Table.from_pandas(table.loc[:, used], preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError) as error:
        raise InputError(f"{name}: not a data frame or Arrow table ({error})") from error
    return table_in_memory(name, arrow)


def _counted(
    posteriors: Posteriors,
    counts: PosteriorRows,
    rows: Rows,
    scored: Iterable[tuple[Chunk, FloatArray]],
) -> Iterator[tuple[Chunk, FloatArray]]:
    """Scored rows, which are counted, and listed where they come first, as they pass."""
    for chunk, scores in scored:
        posteriors.step.count(counts, rows, chunk, scores)
        yield chunk, scores


def _frames(
    posteriors: Posteriors, rows: Rows, scored: Iterable[tuple[Chunk, FloatArray]]
) -> list[pd.DataFrame]:
    """The columns of POSTERIOR for the rows of each table."""
    import pyarrow as pa

    names = list(posteriors.columns)
    parts: list[list[pa.RecordBatch]] = [[] for _ in rows.tables]
    for chunk, scores in scored:
        arrays = [pa.array(scores, from_pandas=True), *posteriors.step.arrays(names, chunk, scores)]
        parts[chunk.table].append(pa.RecordBatch.from_arrays(arrays, ["score", *names]))
    return [pa.Table.from_batches(batches).to_pandas() for batches in parts]


def _indexed(frame: pd.DataFrame, like: TableLike, keep: Sequence[str] = ()) -> pd.DataFrame:
    """A frame with the index of the caller's table, if it has one, and columns of it."""
    import pandas as pd
    import pyarrow as pa

    columns = list(dict.fromkeys(keep))
    if isinstance(like, pa.Table):
        kept = like.select(columns).to_pandas()
    else:
        frame, kept = frame.set_index(like.index), like[columns]
    return pd.concat([frame, kept], axis=1) if columns else frame
