"""The Python interface: data frames in, data frames out, with the numbers of the commands.

import pu_noise_cli as punoise

result = punoise.estimate(labeled, unlabeled)       # data frames, arrays or files
result.alpha, result.alpha_ci, result.beta          # as `punoise run` gives them
result.unlabeled["posterior"]                       # with the caller's index
result.candidates(20)                               # the most likely positives
result.score(new_rows)                              # rows that were not there before
result.estimate_new(new_rows)                       # alpha of another sample
result.save("model.punoise"); punoise.load("model.punoise")
result.report("report.html")
punoise.apply(variants, "pejaver2022:REVEL", "REVEL")   # levels of evidence, and their points
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from .notices import Notice
    from .numerics import IntArray
    from .pipeline import Inputs, Posteriors, RunResult, RunSettings, ScoredRows
    from .posterior.candidates import FirstRows
    from .prior.document import Prior
    from .report.page import Page
    from .score.contributions import Contribution
    from .score.model import StoredModel
    from .tables.frames import Form
    from .tables.reading import Table
    from .tables.rows import Rows

Frame: TypeAlias = Any  # a data frame of the caller's library
TableLike: TypeAlias = Any  # a data frame, a series of scores, a numpy array, or a file name
Settings = TypeVar("Settings")

# options of `run` that are about its process and its files
OF_THE_PROCESS = frozenset(
    ["out_dir", "table_format", "shards", "dask", "resume", "strict", "on_failure"]
) | {"quiet", "verbose"}
OF_POSTERIOR = ("bounds", "fdr")  # options of `posterior` that estimate() takes, too
# the values of `set` for the rows of each table
SETS = {"labeled": ["labeled"], "negatives": ["negative"], "unlabeled": ["unlabeled", "overlap"]}
ONE_TABLE, ALL = "table", "all"
LEVELS = ("psms", "peptides", "proteins")
# options that name columns with a role
ROLES = (
    *("features", "score_column", "id_column", "keep_columns", "group_column", "by"),
    *("label_column", "spectrum_columns", "peptide_column", "protein_column"),
)
BARS = 48  # of a small histogram


@contextmanager
def _as_in_python() -> Iterator[None]:
    """Messages name keyword arguments, and BLAS has one thread, as in the commands."""
    from threadpoolctl import threadpool_limits

    from .errors import python_spelling

    with python_spelling(), threadpool_limits(1, user_api="blas"):
        yield


class _Answer:
    """Alpha and beta with their intervals, as prior.json has them."""

    document: Prior

    @property
    def prior(self) -> dict[str, Any]:
        """The content of prior.json."""
        return self.document.to_json()

    def to_json(self) -> str:
        """The text of prior.json."""
        import json

        return json.dumps(self.prior, indent=2)

    @property
    def alpha(self) -> float:
        """The fraction of positives among the unlabeled rows."""
        assert self.document.alpha is not None  # or estimate() would have raised
        return self.document.alpha

    @property
    def alpha_ci(self) -> tuple[float, float] | None:
        """The 95% interval of alpha; None if alpha is stated.

        Its lower end may be near 0: from labels and scores alone, unlabeled rows that look like
        positives may all be negatives that look alike. `purity`, `alpha_between`, known negatives
        or verdicts (`audit`, `with_verdicts`) narrow it.
        """
        return self.document.alpha_ci

    @property
    def beta(self) -> float:
        """The fraction of the labels that are right."""
        assert self.document.beta is not None
        return self.document.beta

    @property
    def beta_ci(self) -> tuple[float, float] | None:
        """The 95% interval of beta: both ends its value if beta is stated, None if alpha is."""
        return self.document.beta_ci

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Warnings, each with a code and a message."""
        return self.document.notices

    def __repr__(self) -> str:
        def fraction(name: str, value: float, interval: tuple[float, float] | None) -> str:
            ends = "" if interval is None else f" [{interval[0]:.4f}, {interval[1]:.4f}]"
            return f"{name}={value:.4f}{ends}"

        counts = {
            "labeled": self.document.n_labeled,
            "unlabeled": self.document.n_unlabeled,
            "negatives": self.document.n_negatives,
            "warnings": len(self.warnings),
        }
        shown = [
            fraction("alpha", self.alpha, self.alpha_ci),
            fraction("beta", self.beta, self.beta_ci),
            *(f"{name}={count}" for name, count in counts.items() if count is not None),
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class Model(_Answer):
    """A score with alpha and beta, which gives posteriors of new rows; `load` reads one."""

    document: Prior
    stored: StoredModel
    posteriors: Posteriors

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, which `load`, `punoise score` and `posterior --model` read."""
        from . import pipeline

        pipeline.write_model(self.stored, os.fspath(path))

    def score(self, new_rows: TableLike, threads: int = 1) -> Frame:
        """The columns of POSTERIOR for rows that the score was not learned from.

        They are posteriors in the population of the unlabeled rows; see `estimate_new`.
        """
        with _as_in_python():
            return self._score(new_rows, self.posteriors, threads)

    def estimate_new(
        self, new_rows: TableLike, *, sample: str | None = None, threads: int = 1
    ) -> NewSample:
        """Alpha of another sample, whose classes look like those of the training rows.

        Nothing is trained again: the scores of the new rows are a mixture of those of the training
        rows, and the interval carries what is uncertain about these. Posteriors are of a population
        with the new alpha.

        Parameters
        ----------
        new_rows
            Unlabeled rows, not among those the score was learned from; at least 20.
        """
        from . import pipeline
        from .scale.engine import Engine

        engine = Engine(threads)
        with _as_in_python():
            rows, _ = self._new_rows(new_rows)
            prior = pipeline.estimate_new(self.stored, self.document, rows, engine, sample)
            scored = pipeline.stored_scores(self.stored)
            posteriors = pipeline.posteriors(scored, prior, pipeline.Wanted(), engine)
            return NewSample(prior, self._score(new_rows, posteriors, threads))

    def _score(self, new_rows: TableLike, posteriors: Posteriors, threads: int) -> Frame:
        import pyarrow as pa

        from .scale.engine import ahead

        rows, form = self._new_rows(new_rows)
        names = [name for name in posteriors.columns if name != "posterior_labeled"]
        scored = ahead(self.stored.model.score, rows.chunks([*rows.features, *rows.kept]), threads)
        batches = []
        for chunk, scores in scored:
            arrays = posteriors.step.arrays(names, chunk, scores)
            columns = [pa.array(scores, from_pandas=True), *arrays]
            batches.append(pa.RecordBatch.from_arrays(columns, ["score", *names]))
        return form.native(pa.Table.from_batches(batches))

    def _new_rows(self, table: TableLike) -> tuple[Rows, Form]:
        from .tables.frames import Form, to_arrow
        from .tables.reading import open_table, table_in_memory
        from .tables.rows import Rows

        features = [column.name for column in self.stored.model.encoding.columns]
        by_group = self.posteriors.by_group
        kept = [] if by_group is None else [by_group.groups.by]
        if _is_file(table):
            opened, form = open_table(os.fspath(table)), Form()
        else:
            arrow, form = to_arrow("new rows", table)
            if len(features) == 1 and arrow.num_columns == 1:  # a series has no name to heed
                arrow = arrow.rename_columns(features)
            needed = [c for c in arrow.column_names if c in {*features, *kept}]
            if len(needed) == len({*features, *kept}):  # else the message below lists all columns
                arrow = arrow.select(needed)
            opened = table_in_memory("new rows", arrow)
        for column in (*features, *kept):
            opened.require(column, "the model")
        rows = Rows.from_tables([opened], features=features, keep=kept)
        return rows, form


@dataclass(frozen=True, eq=False, repr=False)
class NewSample(_Answer):
    """Alpha of a new sample, and the columns of POSTERIOR for its rows, with their index."""

    document: Prior
    rows: Frame


@dataclass(frozen=True, eq=False, repr=False)
class Estimated(Model):
    """Alpha, beta and the posterior of each row.

    `labeled`, `unlabeled` and `negatives` hold these columns for the rows of each set, in their
    order and with their index:

    score
        High for rows that look like the labeled ones.
    tau
        The calibrated probability that a row with this score is labeled.
    posterior
        The probability that an unlabeled row with this score is positive.
    lr
        The likelihood ratio of positives to negatives at this score.
    fdr
        The expected fraction of negatives among this row and all unlabeled rows that score higher.

    Examples
    --------
    >>> import numpy as np
    >>> import pu_noise_cli as punoise
    >>> rng = np.random.default_rng(0)
    >>> known = np.append(rng.normal(2, 1, 190), rng.normal(0, 1, 10))
    >>> others = np.append(rng.normal(2, 1, 400), rng.normal(0, 1, 1600))
    >>> result = punoise.estimate(known, others)
    >>> 0.1 < result.alpha < 0.3
    True
    >>> result.candidates(2)[["score", "posterior"]].shape
    (2, 2)
    """

    settings: RunSettings
    run: RunResult  # without its files and rows
    scores: bytes  # the file SCORES
    tables: Mapping[str, pa.Table]  # POSTERIOR by set, and further outputs by name
    sources: Mapping[str, tuple[Form, IntArray]]  # by set: the caller's table, and its rows
    audits: tuple[pa.Table, ...] = ()  # with verdicts that are heeded
    unverified: Prior | None = None  # the estimate without verdicts, which rows are drawn by

    # ---- Rows

    @property
    def _is_one_table(self) -> bool:
        return ALL in self.tables

    def _rows(self, name: str) -> Frame:
        form, rows = self.sources[name]
        return form.native(self.tables[name], rows)

    @property
    def labeled(self) -> Frame:
        """The labeled rows, with `posterior_labeled`: how likely each label is right."""
        return self._rows("labeled")

    @property
    def unlabeled(self) -> Frame:
        """The unlabeled rows."""
        return self._rows("unlabeled")

    @property
    def negatives(self) -> Frame | None:
        """The known negatives, if there are any."""
        return self._rows("negatives") if "negatives" in self.tables else None

    @property
    def rows(self) -> Frame | None:
        """All rows of `table=` in its order, with the column `set`; None for several tables."""
        return self._rows(ALL) if self._is_one_table else None

    def candidates(self, n: int = 20) -> Frame:
        """The unlabeled rows that are most likely positive, at most 10,000."""
        return self._listed(self.run.listed.candidates, "unlabeled", n)

    def labels_to_check(self, n: int = 20) -> Frame:
        """The labeled rows whose labels are least likely right, at most 10,000."""
        return self._listed(self.run.listed.labels, "labeled", n)

    def _listed(self, first: FirstRows, name: str, n: int) -> Frame:
        import numpy as np

        table, rows = first.table.slice(0, n), first.order[:n, 2].astype(np.int64)
        if not self.settings.inputs.id_column:
            table = table.drop_columns("id")
        if not self._is_one_table:  # rows are numbered over all tables
            before = list(self.sources).index(name)
            rows -= sum(len(places) for _, places in list(self.sources.values())[:before])
        form, places = self.sources[ALL if self._is_one_table else name]
        return form.native(table, places[rows], listed=True)

    def columns(self) -> Frame:
        """What each column contributes to a learned score; without rows if none was learned."""
        import pyarrow as pa

        from .score.contributions import as_batch

        return self._form.native(pa.Table.from_batches([as_batch(self._contributions)]))

    @property
    def _contributions(self) -> tuple[Contribution, ...]:
        trained = self.run.scored.trained
        return () if trained is None else trained.contributions

    @property
    def _form(self) -> Form:
        form, _ = next(iter(self.sources.values()))
        return replace(form, index=None)

    @property
    def groups(self) -> Frame | None:
        """With `by`: alpha of each group."""
        import pyarrow as pa

        if self.posteriors.by_group is None:
            return None
        table = pa.Table.from_batches([self.posteriors.by_group.groups.table()])
        frame = self._form.native(table)
        return frame.set_index("group") if self._form.backend == "pandas" else frame

    @property
    def thresholds(self) -> Frame | None:
        """With `evidence`: the scores from which each level is reached."""
        found = self.tables.get("thresholds")
        return None if found is None else self._form.native(found)

    @property
    def levels(self) -> dict[str, Frame]:
        """With `spectrum_columns`: the accepted order of psms, peptides and proteins, by level."""
        return {
            name: self._form.native(self.tables[name]) for name in LEVELS if name in self.tables
        }

    # ---- Verification by hand

    def audit(
        self, rows: int = 100, labeled_rows: int = 0, *, top: bool = False, seed: int = 0
    ) -> Frame:
        """Rows to verify by hand, with an empty column `verdict` to fill in (yes or no).

        Rows are drawn within strata. `stratum` is the number of a row's stratum, 1 for the lowest
        scores, and `weight` how many rows of the stratum it represents. Rows that have been drawn
        for earlier verdicts are not drawn again.

        Parameters
        ----------
        rows, labeled_rows
            How many unlabeled and labeled rows to draw: 0, or at least one for each stratum. There
            are at most 12 strata, so 12 rows are always enough.
        top
            Draw unlabeled rows that score like the best labeled ones, where few verdicts narrow
            alpha most. They are one stratum, so 1 row is enough.
        """
        import numpy as np

        from . import pipeline
        from .audit.design import designs, draw_rows, earlier_rows
        from .errors import UsageError

        if rows < 0 or labeled_rows < 0 or rows + labeled_rows == 0:
            raise UsageError(f"rows={rows}, labeled_rows={labeled_rows}: give one above 0")
        with _as_in_python(), self._opened_scores() as scored:
            assert scored.rows is not None
            calibration = pipeline.calibrate_scores(scored, self.unverified or self.document)
            sketch, by_set = calibration.sketch, designs(calibration, top)
            earlier, taken = earlier_rows(_opened_audits(self.audits), scored.rows, sketch, by_set)
            wanted = (rows, labeled_rows)
            drawn = draw_rows(scored.rows, sketch, by_set, wanted, taken, earlier, seed)
            frame = self._form.native(self._with_kept(drawn))
            if self._form.backend != "pandas":
                return frame
            return frame.set_axis(self._index(np.asarray(drawn["row"]) - 1))

    def _index(self, rows: IntArray) -> Any:
        """The caller's index, or else the places in the caller's tables, of rows in SCORES."""
        import numpy as np
        import pandas as pd

        whole = [ALL] if self._is_one_table else [name for name in self.sources if name != ALL]
        parts = [
            pd.Index(places) if form.index is None else form.index.take(places)
            for form, places in (self.sources[name] for name in whole)
        ]
        ends = np.cumsum([len(part) for part in parts])
        table = np.searchsorted(ends, rows, "right")
        used = np.unique(table)  # other tables may have an index of another kind
        starts = {number: ends[number] - len(parts[number]) for number in used}
        chosen = [parts[number].take(rows[table == number] - starts[number]) for number in used]
        return chosen[0].append(chosen[1:])

    def _with_kept(self, drawn: pa.Table) -> pa.Table:
        """Drawn rows with the columns that the caller keeps beside them."""
        import numpy as np
        import pyarrow.parquet as pq

        kept = [c for c in self.settings.inputs.keep_columns if c not in drawn.column_names]
        if not kept:
            return drawn
        scores = pq.read_table(_buffer(self.scores), columns=kept)
        scores = scores.take(np.asarray(drawn["row"]) - 1)
        for column in kept:
            drawn = drawn.append_column(column, scores[column])
        return drawn

    def with_verdicts(self, audit: Frame) -> Estimated:
        """The estimate with what was found about the rows of `audit`, its verdicts filled in.

        Verdicts of earlier rounds are kept: `result.with_verdicts(first).with_verdicts(second)`
        heeds both audits. Keep all rows of an audit; leave `verdict` empty where you are unsure.
        """
        import tempfile

        from . import pipeline
        from .scale.engine import Engine
        from .tables.frames import to_arrow
        from .tables.writing import staged

        engine = Engine(self.settings.scoring.threads)
        with (
            _as_in_python(),
            self._opened_scores() as scored,
            tempfile.TemporaryDirectory() as folder,
        ):
            audits = (*self.audits, to_arrow("audit", audit)[0])
            verdicts = _opened_audits(audits)
            prior = pipeline.estimate(scored, self.settings.prior, engine, verdicts)
            with staged(folder) as stage:
                result = pipeline.write_posteriors(
                    self.settings, scored, prior, self.run.made_of, engine, stage
                )
                tables = _read_tables(str(stage.path), self.settings.inputs, self.tables)
        stored = replace(self.stored, prior=pipeline.stored_prior(prior))
        result = replace(result, scored=self.run.scored)
        return replace(
            self,
            document=prior,
            stored=stored,
            posteriors=result.posteriors,
            run=result,
            tables=tables,
            audits=audits,
            unverified=self.unverified or self.document,
        )

    @contextmanager
    def _opened_scores(self) -> Iterator[ScoredRows]:
        """The scored rows, read from a copy of SCORES."""
        import tempfile

        from .score.scores import open_scores

        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "scores.parquet")
            with open(file, "wb") as out:
                out.write(self.scores)
            rows = open_scores(file)
            shards = tuple(replace(shard, name="scores") for shard in rows.tables[0].shards)
            rows = replace(rows, tables=(replace(rows.tables[0], name="scores", shards=shards),))
            yield replace(
                self.run.scored, rows=rows, scores=rows, trained=None, widening=self.stored.widening
            )

    # ---- To look at

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Warnings, each with a code and a message."""
        return self.run.notices

    @property
    def page(self) -> Page:
        """The report: its charts and texts."""
        return self.run.page

    @property
    def plot(self) -> Plots:
        """Charts of the report, for notebooks; needs the extra `plot`."""
        return Plots(self.page)

    def report(self, file: str | os.PathLike[str]) -> None:
        """Write the report as one HTML file."""
        from .tables.writing import write_text

        write_text(os.fspath(file), self.page.html())

    def _repr_html_(self) -> str:
        from html import escape

        from .prior.document import percent

        def line(name: str, value: float, interval: tuple[float, float] | None, of: str) -> str:
            ends = (
                "" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})"
            )
            return (
                f"<tr><th>{name}</th><td><b>{percent(value)}</b>{ends}</td>"
                f"<td style='text-align:left'>{of}</td></tr>"
            )

        prior, assumed = self.document, self.document.assumed
        rows = [
            line("α", self.alpha, self.alpha_ci, "of the unlabeled rows are positive"),
            line("β", self.beta, self.beta_ci, "of the labels are correct"),
        ]
        notes = [] if assumed is None else [f"<p><b>Assumed:</b> {escape(assumed.words)}.</p>"]
        notes += [f"<p><b>{w.code}:</b> {escape(w.message)}</p>" for w in self.warnings]
        sketch = self.posteriors.calibration.sketch
        drawn = [
            _histogram(sketch.scores, counts, title)
            for counts, title in (
                (sketch.labeled, f"{prior.n_labeled} labeled rows"),
                (sketch.unlabeled, f"{prior.n_unlabeled} unlabeled rows"),
            )
            if counts.sum()
        ]
        return f"<table>{''.join(rows)}</table>{''.join(drawn)}{''.join(notes)}"


def _opened_audits(audits: Sequence[pa.Table]) -> list[Table]:
    """Audits as tables to be read; messages call the only one `audit`."""
    from .tables.reading import table_in_memory

    names = ["audit"] if len(audits) == 1 else [f"audit {i + 1}" for i in range(len(audits))]
    return [table_in_memory(name, audit) for name, audit in zip(names, audits, strict=True)]


def _histogram(scores: Any, counts: Any, title: str) -> str:
    """Rows by score as a small picture."""
    import numpy as np

    low, high = float(scores[0]), float(scores[-1])
    heights, _ = np.histogram(scores, BARS, (low, high if high > low else low + 1), weights=counts)
    bars = "".join(
        f"<rect x='{4 * i}' y='{40 - 38 * h / heights.max():.1f}' width='3.5' "
        f"height='{38 * h / heights.max():.1f}'/>"
        for i, h in enumerate(heights)
    )
    picture = f"<svg width='{4 * BARS}' height='42' fill='currentColor'>{bars}</svg>"
    return (
        "<figure style='display:inline-block;margin:0 1em 0 0'>"
        f"{picture}<figcaption>{title} by score</figcaption></figure>"
    )


@dataclass(frozen=True, eq=False, repr=False)
class Plots:
    """Charts of the report as Altair charts."""

    page: Page
    width: int = 480  # pixels

    def __repr__(self) -> str:
        return f"Plots(width={self.width}): scores(), posterior(), sensitivity()"

    def scores(self) -> Any:
        """The scores of labeled and unlabeled rows."""
        return self._chart("scores", "scores")

    def posterior(self) -> Any:
        """The posterior by score."""
        return self._chart("posterior_by_score", "posteriors")

    def sensitivity(self) -> Any:
        """The interval of alpha by the assumed purity; only `auto` has one."""
        return self._chart("sensitivity", "an assumed purity")

    def _chart(self, kind: str, what: str) -> Any:
        from .errors import EstimationError, UsageError
        from .report.page import PRINT

        try:
            import altair
        except ModuleNotFoundError as error:
            raise UsageError("charts need Altair: pip install 'punoise[plot]'") from error
        for chart in self.page.drawn:
            if chart.kind == kind:
                spec = _with_fields(chart.spec(PRINT, self.width))
                return altair.Chart.from_dict({k: v for k, v in spec.items() if k != "usermeta"})
        raise EstimationError(f"this estimate has no chart of {what}")


def _with_fields(part: dict[str, Any]) -> dict[str, Any]:
    """A specification with fields for constants that have a scale, which Altair refuses."""
    import json

    part = {**part, "encoding": dict(part["encoding"])} if "encoding" in part else dict(part)
    for channel, entry in part.get("encoding", {}).items():
        if isinstance(entry, dict) and "datum" in entry and ("scale" in entry or "legend" in entry):
            constant = {"calculate": json.dumps(entry["datum"]), "as": f"constant_{channel}"}
            part["transform"] = [*part.get("transform", ()), constant]
            field = {"field": constant["as"], "type": "nominal"}
            part["encoding"][channel] = {k: v for k, v in entry.items() if k != "datum"} | field
    if "layer" in part:
        part["layer"] = [_with_fields(layer) for layer in part["layer"]]
    return part


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model file, as `save`, `punoise run` or `transform --model-out` write it.

    A file of a command holds no alpha and beta: they are estimated by the default method.
    """
    from . import pipeline, proteomics  # noqa: F401
    from .scale.engine import Engine
    from .score.model import load_model
    from .tables.files import read_bytes

    name = os.fspath(path)
    with _as_in_python():
        stored = load_model(name, read_bytes(name))
        scored, engine = pipeline.stored_scores(stored), Engine()
        prior = pipeline.prior_of_model(stored, name, engine)
        posteriors = pipeline.posteriors(scored, prior, pipeline.Wanted(), engine)
    return Model(prior, stored, posteriors)


def estimate(
    labeled: TableLike | None = None,
    unlabeled: TableLike | None = None,
    *,
    negatives: TableLike | None = None,
    table: TableLike | None = None,
    label_column: str | None = None,
    labeled_value: Sequence[str] = (),
    negative_value: Sequence[str] = (),
    unlabeled_value: Sequence[str] = (),
    ignore_value: Sequence[str] = (),
    labeled_are: Literal["positives", "negatives"] | None = None,
    input_format: str | None = None,
    delimiter: str | None = None,
    decimal: Literal[".", ","] | None = None,
    sheet: str | None = None,
    id_column: Sequence[str] = (),
    keep_columns: Sequence[str] = (),
    group_column: str | None = None,
    by: str | None = None,
    features: Sequence[str] = (),
    drop_columns: Sequence[str] = (),
    na: Sequence[str] = (),
    categorical: Sequence[str] = (),
    spectrum_columns: Sequence[str] = (),
    peptide_column: str | None = None,
    protein_column: str | None = None,
    transform: bool | None = None,
    score_column: str | None = None,
    lower_is_positive: bool = False,
    missing_score: Literal["stop", "skip"] | None = None,
    classifier: str | None = None,
    max_train_rows: int | None = None,
    count_overlap: bool = False,
    method: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    purity: float | None = None,
    alpha_between: tuple[float, float] | None = None,
    beta_between: tuple[float, float] | None = None,
    evidence: str | None = None,
    target_alpha: float | None = None,
    bounds: bool = False,
    fdr: float | None = None,
    sample: str | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Estimated:
    """Estimate alpha, beta and posteriors from labeled and unlabeled rows.

    Every option is that of `punoise run` (`punoise help run` says more), and so are the numbers.

    Parameters
    ----------
    labeled, unlabeled
        The rows: data frames of pandas, polars, PyArrow or DuckDB, series of scores, numpy arrays
        (two-dimensional for features, one-dimensional for scores) or file names. Some labels may
        be wrong; columns are matched by name.
    negatives
        A third table, of known negatives.
    table, label_column
        One table of all rows instead, and its column that marks labeled rows (1 or 0, True or
        False, "labeled" or "unlabeled"; "negative" marks known negatives).
    labeled_value, negative_value, unlabeled_value, ignore_value
        Values of `label_column` that mark each kind of rows, and rows to leave out. "*" stands for
        every value not named.
    labeled_are
        "negatives" if the labels mark negatives, such as decoys.
    input_format, delimiter, decimal, sheet
        Of files: their format, column separator, decimal mark, and sheet of a workbook.
    id_column, keep_columns
        Columns to copy to the results; they are not features.
    group_column
        Rows of one group, such as a gene, are never split between training and scoring.
    by
        A column that names groups of rows, each with its own alpha.
    features, drop_columns
        The columns to learn from, by default all without another role, and columns to ignore.
    na
        Further texts that stand for missing values.
    categorical
        Columns of categories that look like numbers.
    spectrum_columns, peptide_column, protein_column
        Of matches with decoys: what identifies a spectrum, a peptide and a protein.
    transform
        Learn a score (True) or not (False). By default a single numeric column is the score.
    score_column
        A column to use as the score; by default a score is learned from all columns.
    lower_is_positive
        Low values of `score_column` mean positive.
    missing_score
        "stop" at a row without a score, or "skip" such rows.
    classifier
        What learns the score: "standard", "logistic" or another of `punoise help run`.
    max_train_rows
        Train on a sample of at most so many rows; all rows are scored.
    count_overlap
        Count labeled rows that are among the unlabeled ones as unlabeled, too.
    method
        The estimator of alpha and beta, by default "auto".
    alpha, beta
        Known fractions, which are then not estimated.
    purity
        The least fraction of positives among the unlabeled rows that score like the top fifth of
        the labeled ones, if that can be judged. It narrows `alpha_ci` from below.
    alpha_between, beta_between
        Ranges in which alpha and beta are known to lie.
    evidence
        "acmg", or a file with levels of evidence.
    target_alpha
        Give posteriors for another population, in which this fraction is positive.
    bounds, fdr
        Add 95% bounds on the posterior, and a column `call` at this false discovery rate.
    sample
        A name to record.
    seed, threads
        Of random numbers; the number of threads, which does not change results.

    Raises
    ------
    errors.UsageError
        If options cannot have these values, or not together.
    errors.InputError
        If a table cannot be used.
    errors.EstimationError
        If the tables give no estimate.
    """
    values = dict(locals())
    import tempfile

    from . import pipeline, proteomics  # noqa: F401
    from .options import check_together, check_values, passed
    from .scale.engine import Engine

    with _as_in_python(), tempfile.TemporaryDirectory(prefix="punoise-") as folder:
        known = option_definitions()
        options = passed(known, values)
        check_values(known, options, pipeline.registered)
        check_together(known, options)
        opened = _opened(options)
        settings = pipeline.RunSettings(
            inputs=_pick(pipeline.Inputs, {**options, **opened.inputs}),
            scoring=_pick(pipeline.ScoreSettings, options),
            prior=_pick(pipeline.PriorSettings, options),
            wanted=_pick(pipeline.Wanted, options),
        )
        result = pipeline.run(settings, Engine(threads), folder)
        return _estimated(opened, settings, result, folder)


def located(result: Estimated, index: Any, places: Mapping[str, IntArray]) -> Estimated:
    """A result whose rows come from one table of the caller.

    Parameters
    ----------
    index
        Of pandas; None if places name the rows.
    places
        By set, where its rows are in that table.
    """
    from .tables.frames import Form

    form = Form(index=index, numbered=True)
    return replace(result, sources={name: (form, places[name]) for name in result.sources})


def option_definitions() -> dict[str, Mapping[str, Any]]:
    """The options of `estimate`, as options.toml defines them."""
    from .options import definitions

    run, posterior = definitions("run"), definitions("posterior")
    of_run = {name: entry for name, entry in run.items() if name not in OF_THE_PROCESS}
    return {**of_run, **{name: posterior[name] for name in OF_POSTERIOR}}


class _Opened(NamedTuple):
    """The tables that the caller passed."""

    inputs: dict[str, Any]  # the tables, to be read, and the options that change with them
    arrow: dict[str, pa.Table]  # by name, those in memory
    forms: dict[str, Form]


def _opened(options: Mapping[str, Any]) -> _Opened:
    """The caller's tables, without columns that are not needed."""
    from .tables.frames import Form, to_arrow
    from .tables.reading import table_in_memory

    inputs: dict[str, Any] = {}
    arrow: dict[str, pa.Table] = {}
    forms: dict[str, Form] = {}
    roles = {column for name in ROLES for column in _names(options.get(name))}
    dropped = {*options.get("drop_columns", ())} - roles
    found: set[str] = set()
    for name in (*SETS, ONE_TABLE):
        if name not in options:
            continue
        if _is_file(options[name]):
            inputs[name], forms[name] = os.fspath(options[name]), Form()
            continue
        arrow[name], forms[name] = to_arrow(name, options[name], dropped)
        found |= dropped & {*_column_names(options[name])}
        inputs[name] = table_in_memory(name, arrow[name])
    if len(arrow) == len(forms):
        columns = options.get("drop_columns", ())
        inputs["drop_columns"] = tuple(column for column in columns if column not in found)
    return _Opened(inputs, arrow, forms)


def _estimated(opened: _Opened, settings: RunSettings, result: RunResult, folder: str) -> Estimated:
    """The result of a run, with everything that later calls need in memory."""
    from . import pipeline

    rows = result.scored.rows
    assert rows is not None
    inputs = replace(settings.inputs, labeled=None, unlabeled=None, negatives=None, table=None)
    settings = replace(settings, inputs=inputs)
    sources = _sources(opened.forms, rows)
    typed = {name: opened.arrow.get(ONE_TABLE, opened.arrow.get(name)) for name in sources}
    typed = {
        name: table.take(sources[name][1]) for name, table in typed.items() if table is not None
    }
    with open(os.path.join(folder, "scores.parquet"), "rb") as file:
        scores = file.read()
    return Estimated(
        document=result.prior,
        stored=replace(pipeline.stored_model(result), prior=pipeline.stored_prior(result.prior)),
        posteriors=result.posteriors,
        settings=settings,
        run=replace(result, scored=replace(result.scored, rows=None, scores=None, scorer=None)),
        scores=scores,
        tables=_read_tables(folder, settings.inputs, typed),
        sources=sources,
    )


def _sources(forms: Mapping[str, Form], rows: Rows) -> dict[str, tuple[Form, IntArray]]:
    """For each set, the form of the caller's table and the places of the rows in it."""
    import numpy as np

    from .tables.rows import LABELED, NEGATIVE

    chunks = list(rows.chunks(()))
    if ONE_TABLE not in forms:
        sizes = [0] * len(rows.tables)
        for chunk in chunks:
            sizes[chunk.table] += len(chunk.sets)
        pairs = zip(forms.items(), sizes, strict=True)
        return {name: (form, np.arange(size)) for (name, form), size in pairs}
    places, sets = [], []
    for chunk in chunks:
        numbers = chunk.first_file_row + np.arange(len(chunk.sets))
        places.append(numbers if chunk.file_rows is None else chunk.file_rows)
        sets.append(chunk.sets)
    place, code = np.concatenate(places), np.concatenate(sets)
    by_set = {"labeled": code == LABELED, "negatives": code == NEGATIVE}
    by_set["unlabeled"] = ~(by_set["labeled"] | by_set["negatives"])
    form = forms[ONE_TABLE]
    chosen = {name: (form, place[here]) for name, here in by_set.items() if here.any()}
    return {ALL: (form, place), **chosen}


def _read_tables(folder: str, inputs: Inputs, typed: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """POSTERIOR by set, and further outputs by name.

    Parameters
    ----------
    typed
        Tables with the columns that are kept, as the caller has them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq

    posterior = pq.read_table(os.path.join(folder, "posterior.parquet"))
    if not inputs.id_column:
        posterior = posterior.drop_columns("id")
    named = dict.fromkeys((*inputs.keep_columns, inputs.by))
    kept = [c for c in named if c in posterior.column_names]
    posterior = posterior.select([c for c in posterior.column_names if c not in kept] + kept)
    tables = {ALL: posterior} if ALL in typed or inputs.label_column is not None else {}
    for name, words in SETS.items():
        here = pc.is_in(posterior["set"], value_set=pa.array(words))
        part = posterior.filter(here).drop_columns("set")
        if name != "labeled":
            part = part.drop_columns("posterior_labeled")
        if part.num_rows:
            tables[name] = part
    for name, table in tables.items():
        for column in kept if name in typed else ():
            place = table.schema.get_field_index(column)
            tables[name] = tables[name].set_column(place, column, typed[name][column])
    for name in ("thresholds", *LEVELS):
        file = os.path.join(folder, f"{name}.tsv")
        if os.path.exists(file):
            layout = pyarrow.csv.ParseOptions(delimiter="\t")
            tables[name] = pyarrow.csv.read_csv(file, parse_options=layout)
    return tables


def apply(
    table: TableLike,
    thresholds: str,
    score_column: str,
    *,
    by: str | None = None,
    add_points: Sequence[str] = (),
    na: Sequence[str] = (),
) -> Frame:
    """The level of evidence of each row and its points, as `punoise apply` gives them.

    Parameters
    ----------
    thresholds
        A file of thresholds, or the name of a published calibration, such as pejaver2022:REVEL.
    by
        The column that names the group of each row, for thresholds of groups.
    add_points
        Columns of points of independent criteria, to be summed in `points_total`.

    Returns
    -------
    The columns `score`, `level`, `points`, with the index of the table.
    """
    import pyarrow as pa

    from .errors import InputError, option
    from .evidence.apply import GroupRanges, LevelRanges, WriteEvidence
    from .tables.frames import to_arrow
    from .tables.reading import table_in_memory
    from .tables.rows import Rows

    with _as_in_python():
        ranges = (LevelRanges if by is None else GroupRanges).read(str(thresholds))
        step = WriteEvidence(ranges, score_column, tuple(add_points), tuple(na), by)
        groups = () if by is None else (by,)
        unused = {*_column_names(table)} - {*step.columns, *groups}
        arrow, form = to_arrow("table", table, unused)
        opened = table_in_memory("table", arrow)
        if by is not None:
            opened.require(by, option("by"))
        rows = Rows.from_tables([opened], features=step.columns, keep=groups)
        if isinstance(ranges, GroupRanges) and by is not None:
            ranges.check_column(rows, by)
        batches = []
        for chunk in rows.chunks([*step.columns, *groups]):
            scores, columns = step.evidence(chunk)
            scored = {"score": pa.array(scores, from_pandas=True), **columns}
            batches.append(pa.RecordBatch.from_pydict(scored))
        if not batches:
            raise InputError("table: has no rows")
    return form.native(pa.Table.from_batches(batches))


def _pick(settings: type[Settings], options: Mapping[str, Any]) -> Settings:
    """Settings whose fields are set by the options of the same names."""
    names = {field.name for field in fields(settings)}  # type: ignore[arg-type]
    chosen = {name: value for name, value in options.items() if name in names}
    lists = {name: tuple(value) for name, value in chosen.items() if isinstance(value, list)}
    return settings(**{**chosen, **lists})


def _is_file(table: TableLike) -> bool:
    return isinstance(table, (str, os.PathLike))


def _names(value: Any) -> tuple[str, ...]:
    """The columns that an option names."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _column_names(table: TableLike) -> list[str]:
    return [str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))]


def _buffer(content: bytes) -> Any:
    import io

    return io.BytesIO(content)
