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

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from . import pipeline
from .answer import Answer, load_answer, write_answer
from .audit.design import designs, draw_rows, earlier_rows
from .errors import EstimationError, InputError, UsageError, option, python_spelling
from .notices import Notice
from .numerics import FloatArray, IntArray
from .options import build, check_together, check_values, definitions, passed
from .pipeline import Posteriors, ScoredRows
from .posterior.candidates import FirstRows
from .prior.document import Prior, percent
from .recipes.parts import open_inputs
from .recipes.run import analyze, finish_analysis
from .report.page import PRINT, Page
from .result import Result, Tables
from .scale.engine import Engine
from .score.contributions import Contribution
from .settings import Analysis, Inputs, Wanted
from .tables.files import read_bytes
from .tables.frames import SCORE, Form, to_arrow
from .tables.reading import Table, open_table, table_in_memory
from .tables.records import as_batch
from .tables.results import check_complete
from .tables.rows import LABELED, NEGATIVE, Rows
from .tables.writing import MemoryTable, write_text
from .variants.apply import GroupRanges, LevelRanges, WriteEvidence

Frame: TypeAlias = Any  # a data frame of the caller's library
TableLike: TypeAlias = Any  # a data frame, a series of scores, a numpy array, or a file name

# the values of `set` for the rows of each table
SETS = {"labeled": ["labeled"], "negatives": ["negative"], "unlabeled": ["unlabeled", "overlap"]}
ONE_TABLE, ALL = "table", "all"
BARS = 48  # of a small histogram


@contextmanager
def _as_in_python() -> Iterator[None]:
    """Messages name keyword arguments, and BLAS has one thread, as in the commands."""
    with python_spelling(), threadpool_limits(1, user_api="blas"):
        yield


class _AlphaAndBeta:
    """Alpha and beta with their intervals, as prior.json has them."""

    @property
    def document(self) -> Prior:
        raise NotImplementedError

    @property
    def prior(self) -> dict[str, Any]:
        """The content of prior.json."""
        return self.document.to_json()

    def to_json(self) -> str:
        """The text of prior.json."""
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
        shown = [f"alpha={self.alpha:.4f}", f"beta={self.beta:.4f}"]
        for i, ends in enumerate((self.alpha_ci, self.beta_ci)):
            shown[i] += "" if ends is None else f" [{ends[0]:.4f}, {ends[1]:.4f}]"
        for name in ("labeled", "unlabeled", "negatives"):
            count = getattr(self.document, f"n_{name}")
            shown += [] if count is None else [f"{name}={count}"]
        return f"{type(self).__name__}({', '.join(shown)}, warnings={len(self.warnings)})"


@dataclass(frozen=True, eq=False, repr=False)
class Model(_AlphaAndBeta):
    """A score with alpha and beta, which gives posteriors of new rows; `load` reads one."""

    answer: Answer

    @property
    def document(self) -> Prior:
        assert self.answer.prior is not None
        return self.answer.prior

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, which `load`, `punoise score` and `posterior --model` read."""
        write_answer(self.answer, os.fspath(path))

    def score(self, new_rows: TableLike, threads: int = 1) -> Frame:
        """The columns of POSTERIOR for rows that the score was not learned from.

        They are posteriors in the population of the unlabeled rows; see `estimate_new`.
        """
        with _as_in_python():
            return _scored(self.answer, *self._new_rows(new_rows), threads)

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
        engine = Engine(threads)
        with _as_in_python():
            rows, form = self._new_rows(new_rows)
            prior = pipeline.estimate_new(self.answer, self.document, rows, engine, sample)
            answer = _interpreted(replace(self.answer, prior=prior))
            return NewSample(prior, _scored(answer, rows, form, threads))

    def _new_rows(self, table: TableLike) -> tuple[Rows, Form]:
        features, by = self.answer.features, self.answer.by
        kept = [] if by is None else [by]
        columns, needed = {*_column_names(table)}, {*features, *kept}
        unused = columns - needed if needed <= columns else set()  # else the message lists all
        opened, form = _open("new rows", table, unused, features[0])
        for column in (*features, *kept):
            opened.require(column, "the model")
        return Rows.from_tables([opened], features=features, keep=kept), form


@dataclass(frozen=True, eq=False, repr=False)
class NewSample(_AlphaAndBeta):
    """Alpha of a new sample, and the columns of POSTERIOR for its rows, with their index."""

    estimated: Prior
    rows: Frame

    @property
    def document(self) -> Prior:
        return self.estimated


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

    settings: Analysis
    result: Result
    scores: MemoryTable  # SCORES
    tables: Mapping[str, pa.Table]  # POSTERIOR by set, and further outputs by name
    sources: Mapping[str, tuple[Form, IntArray]]  # by set: the caller's table, and its rows
    audits: tuple[pa.Table, ...] = ()  # with verdicts that are heeded
    unverified: Prior | None = None  # the estimate without verdicts, which rows are drawn by

    @property
    def posteriors(self) -> Posteriors:
        """What each score says of its row."""
        return self.result.posteriors

    # ---- Rows

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
        return self._rows(ALL) if ALL in self.tables else None

    def candidates(self, n: int = 20) -> Frame:
        """The unlabeled rows that are most likely positive, at most 10,000."""
        return self._listed(self.result.listed.candidates, n)

    def labels_to_check(self, n: int = 20) -> Frame:
        """The labeled rows whose labels are least likely right, at most 10,000."""
        return self._listed(self.result.listed.labels, n)

    def _listed(self, first: FirstRows, n: int) -> Frame:
        table = first.table if self.settings.inputs.id_column else first.table.drop_columns("id")
        return self._named(table.slice(0, n), first.order[:n, 2].astype(np.int64))

    def _named(self, table: pa.Table, rows: IntArray) -> Frame:
        """A frame of rows of SCORES, with their index or their places in the caller's tables."""
        sources = [self.sources[ALL]] if ALL in self.sources else [*self.sources.values()]
        places = np.concatenate([places for _, places in sources])[rows]
        source = np.repeat(np.arange(len(sources)), [len(places) for _, places in sources])[rows]
        frame = self._form.native(table, places, listed=True)
        if self._form.backend == "pandas" and len(rows):
            # other tables may have an index of another kind
            parts = [sources[i][0].labels(places[source == i]) for i in np.unique(source)]
            frame = frame.set_axis(parts[0].append(parts[1:]))
        return frame

    def columns(self) -> Frame:
        """What each column contributes to a learned score; without rows if none was learned."""
        trained = self.result.scored.trained
        batch = as_batch(() if trained is None else trained.contributions, Contribution)
        return self._form.native(pa.Table.from_batches([batch]))

    @property
    def _form(self) -> Form:
        return replace(next(iter(self.sources.values()))[0], index=None)

    @property
    def groups(self) -> Frame | None:
        """With `by`: alpha of each group."""
        if self.posteriors.group_posteriors is None:
            return None
        frame = self._form.native(pa.table(self.posteriors.group_posteriors.groups.table()))
        return frame.set_index("group") if self._form.backend == "pandas" else frame

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
        if rows < 0 or labeled_rows < 0 or rows + labeled_rows == 0:
            raise UsageError(f"rows={rows}, labeled_rows={labeled_rows}: give one above 0")
        with _as_in_python():
            scored = self._read_again()
            assert scored.rows is not None
            calibration = pipeline.calibrate_scores(scored, self.unverified or self.document)
            sketch, by_set = calibration.sketch, designs(calibration, top)
            earlier, taken = earlier_rows(_opened_audits(self.audits), scored.rows, sketch, by_set)
            wanted = (rows, labeled_rows)
            drawn = draw_rows(scored.rows, sketch, by_set, wanted, taken, earlier, seed)
            places = np.asarray(drawn["row"]) - 1
            kept = [c for c in self.settings.inputs.keep_columns if c not in drawn.column_names]
            beside = self.scores.table.select(kept).take(places)
            for column in kept:
                drawn = drawn.append_column(column, beside[column])
            return self._named(drawn, places)

    def with_verdicts(self, audit: Frame) -> Estimated:
        """The estimate with what was found about the rows of `audit`, its verdicts filled in.

        Verdicts of earlier rounds are kept: `result.with_verdicts(first).with_verdicts(second)`
        heeds both audits. Keep all rows of an audit; leave `verdict` empty where you are unsure.
        """
        settings, engine = self.settings, Engine(self.settings.scoring.threads)
        audits = (*self.audits, to_arrow("audit", audit)[0])
        with _as_in_python():
            scored, posterior = self._read_again(), MemoryTable()
            prior = pipeline.estimate(scored, settings.prior, engine, _opened_audits(audits))
            source = self.result.provenance
            assert source is not None
            result = finish_analysis(settings.wanted, scored, prior, source, engine, posterior)
        result = replace(result, scored=self.result.scored, contributions=self.result.contributions)
        return replace(
            self,
            answer=result.answer,
            result=result,
            tables=_tables(posterior, settings.inputs, self.tables),
            audits=audits,
            unverified=self.unverified or self.document,
        )

    def _read_again(self) -> ScoredRows:
        """The scored rows, read from SCORES."""
        scored = self.result.scored
        return replace(scored, rows=scored.scores, trained=None, widening=self.answer.widening)

    # ---- To look at

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Warnings, each with a code and a message."""
        return self.result.notices

    @cached_property
    def page(self) -> Page:
        """The report: its charts and texts."""
        return self.result.page()

    @property
    def plot(self) -> Plots:
        """Charts of the report, for notebooks; needs the extra `plot`."""
        return Plots(self.page)

    def report(self, file: str | os.PathLike[str]) -> None:
        """Write the report as one HTML file."""
        write_text(os.fspath(file), self.page.html())

    def _repr_html_(self) -> str:
        answers = {
            "α": (self.alpha, self.alpha_ci, "of the unlabeled rows are positive"),
            "β": (self.beta, self.beta_ci, "of the labels are correct"),
        }
        shown = "<table>"
        for name, (value, ends, meaning) in answers.items():
            interval = "" if ends is None else f" ({percent(ends[0])} to {percent(ends[1])})"
            shown += f"<tr><th>{name}</th><td><b>{percent(value)}</b>{interval}</td>"
            shown += f"<td style='text-align:left'>{meaning}</td></tr>"
        shown += "</table>"
        sketch = self.posteriors.calibration.sketch
        for name, counts in (("labeled", sketch.labeled), ("unlabeled", sketch.unlabeled)):
            shown += _histogram(sketch.scores, counts, name) if counts.any() else ""
        assumed = self.document.assumed
        notes = [] if assumed is None else [("Assumed", f"{assumed.words}.")]
        notes += [(notice.code, notice.message) for notice in self.warnings]
        return shown + "".join(f"<p><b>{name}:</b> {escape(text)}</p>" for name, text in notes)


def _opened_audits(audits: Sequence[pa.Table]) -> list[Table]:
    """Audits as tables to be read; messages call the only one `audit`."""
    names = ["audit"] if len(audits) == 1 else [f"audit {i + 1}" for i in range(len(audits))]
    return [table_in_memory(name, audit) for name, audit in zip(names, audits, strict=True)]


def _histogram(scores: FloatArray, counts: IntArray, name: str) -> str:
    """Rows of a set by score as a small picture."""
    ends = float(scores[0]), float(max(scores[-1], scores[0] + 1e-9))
    heights = np.histogram(scores, BARS, ends, weights=counts)[0]
    bars = "".join(
        f"<rect x='{4 * i}' y='{40 - height:.1f}' width='3.5' height='{height:.1f}'/>"
        for i, height in enumerate(38 * heights / heights.max())
    )
    return (
        "<figure style='display:inline-block;margin:0 1em 0 0'>"
        f"<svg width='{4 * BARS}' height='42' fill='currentColor'>{bars}</svg>"
        f"<figcaption>{counts.sum()} {name} rows by score</figcaption></figure>"
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

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pu_noise_cli as punoise
    >>> rng = np.random.default_rng(0)
    >>> result = punoise.estimate(rng.normal(2, 1, 100), rng.normal(0, 1, 500))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(f"{folder}/model.punoise")
    ...     model = punoise.load(f"{folder}/model.punoise")
    >>> model.alpha == result.alpha
    True
    >>> model.score(np.array([-1.0, 3.0])).shape
    (2, 5)
    """
    name = os.fspath(path)
    with _as_in_python():
        check_complete(name)
        answer = load_answer(name, read_bytes(name))
        if not answer.columns:
            prior = pipeline.prior_of_model(answer, name, Engine())
            answer = _interpreted(replace(answer, prior=prior))
        return Model(answer)


def _interpreted(answer: Answer) -> Answer:
    """The answer with the columns that follow from its prior."""
    assert answer.prior is not None
    prior, target_alpha = pipeline.in_population(answer.prior, None)
    calibration = pipeline.calibrate_scores(pipeline.stored_scores(answer), prior)
    posteriors = pipeline.interpret(calibration, Wanted(target_alpha=target_alpha))
    return replace(answer, columns=posteriors.columns)


def _scored(answer: Answer, rows: Rows, form: Form, threads: int) -> Frame:
    return form.native(pa.Table.from_batches(answer.score(rows, threads)))


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
        the labeled ones, if that can be judged. It narrows `alpha_ci` from below; if it is not
        true, the interval is wrong, and scores alone seldom show that.
    alpha_between, beta_between
        Ranges in which alpha and beta are known to lie.
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
        If the tables give no estimate. All three are ValueErrors.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pu_noise_cli as punoise
    >>> rng = np.random.default_rng(0)
    >>> def table(rows, fraction):
    ...     positive = np.arange(rows) < fraction * rows
    ...     x = rng.normal(size=(rows, 3)) + 1.5 * positive[:, None]
    ...     return pd.DataFrame(x, columns=["a", "b", "c"])
    >>> result = punoise.estimate(table(200, 0.95), table(1000, 0.3), classifier="logistic")
    >>> low, high = result.alpha_ci
    >>> low < 0.3 < high
    True
    >>> list(result.unlabeled.columns)
    ['score', 'tau', 'posterior', 'lr', 'fdr']
    >>> sample = result.estimate_new(table(500, 0.7))
    >>> 0.6 < sample.alpha < 0.8
    True
    """
    values = dict(locals())
    with _as_in_python():
        known = definitions(Analysis)
        options = passed(known, values)
        check_values(known, options, pipeline.registered)
        check_together(known, options)
        inputs, arrow, forms = _opened(options)
        settings = build(Analysis, {**options, **inputs})
        rows, scores, posterior = open_inputs(settings), MemoryTable(), MemoryTable()
        result = analyze(settings, rows, Engine(threads), Tables(scores, posterior))
        sources = _sources(forms, rows)
        typed = {
            name: table.take(places)
            for name, (_, places) in sources.items()
            if (table := arrow.get(ONE_TABLE, arrow.get(name))) is not None
        }
        # what later calls need; the caller's tables are not kept
        bare = replace(settings.inputs, labeled=None, unlabeled=None, negatives=None, table=None)
        result = replace(result, scored=replace(result.scored, rows=None, scorer=None))
        return Estimated(
            answer=result.answer,
            settings=replace(settings, inputs=bare),
            result=result,
            scores=scores,
            tables=_tables(posterior, settings.inputs, typed),
            sources=sources,
        )


def located(result: Estimated, index: Any, places: Mapping[str, IntArray]) -> Estimated:
    """A result whose rows come from one table of the caller.

    Parameters
    ----------
    index
        Of pandas; None if places name the rows.
    places
        By set, where its rows are in that table.
    """
    form = Form(index=index, numbered=True)
    return replace(result, sources={name: (form, places[name]) for name in result.sources})


def _opened(
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, pa.Table], dict[str, Form]]:
    """The caller's tables, without columns that are to be dropped.

    Returns
    -------
    inputs
        The tables, to be read, and the options that change with them.
    arrow, forms
        By name, the tables in memory, and what all of them are made of.
    """
    inputs: dict[str, Any] = {}
    arrow: dict[str, pa.Table] = {}
    forms: dict[str, Form] = {}
    listed, found = options.get("drop_columns", ()), set[str]()
    others = [value for name, value in options.items() if name != "drop_columns"]
    lists = [value if isinstance(value, (list, tuple)) else [value] for value in others]
    # a column with another role is an error, later
    dropped = {*listed} - {text for value in lists for text in value if isinstance(text, str)}
    for name in (*SETS, ONE_TABLE):
        table: TableLike = options.get(name)
        if _is_file(table):
            inputs[name], forms[name] = os.fspath(table), Form()
        elif table is not None:
            arrow[name], forms[name] = to_arrow(name, table, dropped)
            inputs[name] = table_in_memory(name, arrow[name])
            found |= dropped & {*_column_names(table)}
    if len(arrow) == len(forms):
        inputs["drop_columns"] = tuple(column for column in listed if column not in found)
    return inputs, arrow, forms


def _sources(forms: Mapping[str, Form], rows: Rows) -> dict[str, tuple[Form, IntArray]]:
    """For each set, the form of the caller's table and the places of the rows in it."""
    chunks = list(rows.chunks(()))
    code = np.concatenate([chunk.sets for chunk in chunks])
    by_set = {"labeled": code == LABELED, "negatives": code == NEGATIVE}
    by_set["unlabeled"] = ~(by_set["labeled"] | by_set["negatives"])
    if ONE_TABLE not in forms:
        return {name: (form, np.arange(by_set[name].sum())) for name, form in forms.items()}
    place, form = np.concatenate([chunk.places for chunk in chunks]), forms[ONE_TABLE]
    chosen = {name: (form, place[here]) for name, here in by_set.items() if here.any()}
    return {ALL: (form, place), **chosen}


def _tables(
    written: MemoryTable, inputs: Inputs, typed: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """POSTERIOR by set.

    Parameters
    ----------
    typed
        Tables with the columns that are kept, as the caller has them.
    """
    posterior = written.table
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
    for name in tables.keys() & typed.keys():
        for column in kept:
            place = tables[name].column_names.index(column)
            tables[name] = tables[name].set_column(place, column, typed[name][column])
    return tables


def apply(
    table: TableLike,
    thresholds: str | os.PathLike[str],
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

    Examples
    --------
    >>> import pandas as pd
    >>> import pu_noise_cli as punoise
    >>> variants = pd.DataFrame({"REVEL": [0.95, 0.5, 0.01]}, index=["v1", "v2", "v3"])
    >>> found = punoise.apply(variants, "pejaver2022:REVEL", "REVEL")
    >>> found["level"].tolist()
    ['PP3_Strong', 'indeterminate', 'BP4_Strong']
    """
    with _as_in_python():
        ranges = (LevelRanges if by is None else GroupRanges).read(os.fspath(thresholds))
        step = WriteEvidence(ranges, score_column, tuple(add_points), tuple(na), by)
        groups = () if by is None else (by,)
        unused = {*_column_names(table)} - {*step.columns, *groups}
        opened, form = _open("table", table, unused)
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


def _open(name: str, table: TableLike, unused: set[str], series: str = SCORE) -> tuple[Table, Form]:
    """A table of the caller without its unused columns, to be read, and what it is made of."""
    if _is_file(table):
        return open_table(os.fspath(table)), Form()
    arrow, form = to_arrow(name, table, unused, series)
    return table_in_memory(name, arrow), form


def _is_file(table: TableLike) -> bool:
    return isinstance(table, (str, os.PathLike))


def _column_names(table: TableLike) -> list[str]:
    return [str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))]
