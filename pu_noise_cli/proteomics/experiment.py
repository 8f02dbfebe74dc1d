"""Many runs as one experiment: files scored one by one, and what their matches say together.

A spectrum lives in one run, so a run is a unit of work: its file (or the two files of its targets
and decoys) is scored, the best match of each spectrum goes into a shard, and only scores, kinds and
hashes stay in memory, some 30 bytes for each spectrum.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..notices import Notice
from ..numerics import FloatArray, IntArray
from ..scale.engine import Engine, Job, RowsDone, ahead
from ..score.model import HonestScorer, ScoreModel
from ..tables.rows import Chunk, Rows, as_text
from ..tables.writing import table_writer
from .columns import SPECTRUM, MatchRows
from .groups import Grouping, check_groups, q_values_within, within_groups
from .levels import level_tables
from .matches import (
    BUFFER,
    PSMS,
    ROLLED_UP,
    Confidence,
    Matches,
    check_decoys,
    check_kinds,
    count_decoys,
    hash_keys,
)
from .pin import run_name
from .report import Histogram, LevelCounts, MatchesDocument, PartCounts

RUN_Q_VALUE = "run_q-value"
OWN_COLUMNS = ("file", RUN_Q_VALUE, "group", "id", "proteins")
AT_ONCE = 1 << 16  # matches that are written at once
KEPT = "kept."  # before the names of kept columns in shards
ACCEPTED = 0.01
RATES = (0.001, 0.002, 0.005, ACCEPTED, 0.02, 0.05, 0.1)  # at which targets are counted
HISTOGRAM_BINS = 50
FEW = 20  # decoys of a group: fewer do not say where 1% of its targets are wrong
MAX_NAMED = 8  # groups in a message


# ---- Runs


def runs(rows: Rows) -> dict[str, Rows]:
    """The part of the rows of each run, which has one or two files, by the names of shards."""
    (table,) = rows.tables
    parts, row = dict[str, Rows](), table.first_row
    for number, (_, group) in enumerate(
        itertools.groupby(table.shards, lambda shard: run_name(shard.path))
    ):
        shards = [*group]
        parts[f"{number:06}.parquet"] = replace(rows, tables=(table.only(shards, row),))
        row += sum(shard.num_rows or 0 for shard in shards)
    return parts


def file_names(rows: Rows) -> dict[str, str]:
    """How the outputs name each file: without its directory, unless two would be the same."""
    (table,) = rows.tables
    names = [shard.name for shard in table.shards]
    short = [os.path.basename(name) for name in names]
    if len({*short}) < len(short):
        folder = os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names])
        short = [os.path.relpath(name, folder) for name in names]
    return dict(zip(names, short, strict=True))


@dataclass(frozen=True, eq=False)
class Run:
    """The best match of each spectrum of a run, in the order of its rows."""

    matches: Matches  # rows are those of the run, from 0; keys of peptides and proteins only
    group: IntArray  # (n,): the index of its group
    groups: tuple[str, ...]
    rows: int  # all matches, best or not


@dataclass(frozen=True)
class WriteRuns:
    """The step that scores a run, and writes the best match of each spectrum into a shard."""

    scorer: HonestScorer | ScoreModel
    matches: MatchRows
    grouping: Grouping | None = None

    def __call__(self, job: Job, done: RowsDone, threads: int) -> tuple[Run, ...]:
        assert isinstance(job.out, str)
        rows = job.part
        if isinstance(self.scorer, HonestScorer):
            scored = self.scorer.score_all(rows, threads)
        else:
            columns = [*rows.features, *rows.carried]
            scored = ahead(self.scorer.score, rows.chunks(columns), threads)
        best = _BestOfRun(rows, self.matches, self.grouping)
        for chunk, scores in scored:
            if not np.isfinite(scores).all():
                row = chunk.file_row(int((~np.isfinite(scores)).argmax()))
                raise InputError(f"{chunk.file}: row {row} has no finite score")
            best.add(chunk, scores)
            done(len(scores))
        table = best.table()
        with table_writer(job.out, table.schema, ("id", "score")) as write:
            for batch in table.to_batches():
                write(batch)
        return (_run(table, best.rows),)

    @staticmethod
    def merge(results: Sequence[tuple[Run, ...]]) -> tuple[Run, ...]:
        return tuple(itertools.chain.from_iterable(results))


class _BestOfRun:
    """Collects the best match of each spectrum, with what the tables show of it."""

    def __init__(self, run: Rows, matches: MatchRows, grouping: Grouping | None) -> None:
        self._run, self._matches, self._grouping, self.rows = run, matches, grouping, 0
        self._files = [shard.name for shard in run.tables[0].shards]
        kept = {f"{KEPT}{name}": name for name in matches.rows.kept}
        self._shown = {"peptide": matches.peptide, "proteins": matches.proteins, **kept}
        self._parts: list[pa.Table] = []
        self._size = BUFFER

    def add(self, chunk: Chunk, scores: FloatArray) -> None:
        """Add rows with their scores, shape (n,)."""
        n = len(scores)
        columns: dict[str, Any] = {
            "row": np.arange(self.rows, self.rows + n),
            "id": self._run.ids(chunk),
            "file": np.full(n, self._files.index(chunk.file), np.int8),
            "decoy": pa.array(chunk.labeled),
            "score": scores,
        }
        for name, column in self._shown.items():
            columns[name] = pa.array([""] * n) if column is None else as_text(chunk, column)
        names = pa.array([""] * n) if self._grouping is None else self._grouping.names(chunk)
        columns["group"] = names
        keys = self._matches.key_texts(chunk)
        columns |= {f"key.{name}": hash_keys(texts) for name, texts in keys.items()}
        self._parts.append(pa.table(columns))
        self.rows += n
        if sum(part.num_rows for part in self._parts) > self._size:
            self._size = max(self._size, 2 * self._best().num_rows)

    def _best(self) -> pa.Table:
        table = pa.concat_tables(self._parts).combine_chunks()
        matches = _matches(table)
        self._parts = [table.take(pa.array(matches.best_places(SPECTRUM)))]
        return self._parts[0]

    def table(self) -> pa.Table:
        """The best matches in the order of their rows."""
        if not self._parts:
            raise InputError(f"{self._files[0]}: the table has no rows")
        return self._best().drop_columns([f"key.{SPECTRUM}"])


def _matches(table: pa.Table) -> Matches:
    keys = [name for name in table.column_names if name.startswith("key.")]
    return Matches(
        table["row"].to_numpy(),
        table["score"].to_numpy(),
        np.asarray(table["decoy"].to_numpy(), bool),
        {name.removeprefix("key."): table[name].to_numpy() for name in keys},
    )


def _run(table: pa.Table, rows: int) -> Run:
    coded = table["group"].combine_chunks().dictionary_encode()
    codes = np.asarray(coded.indices).astype(np.int64)
    return Run(_matches(table), codes, tuple(coded.dictionary.to_pylist()), rows)


# ---- The experiment


@dataclass(frozen=True, eq=False)
class Experiment:
    """The best matches of all runs in order, and the confidence in them."""

    starts: IntArray  # (runs + 1,): where the matches of each run begin
    levels: Mapping[str, Confidence]  # psms, peptides, proteins; their rows are places among psms
    run_q_value: FloatArray  # (n,): of each match within its run, and its group
    group: IntArray  # (n,): the index of its group
    groups: tuple[str, ...]  # without a grouping one, ""
    rows: int  # all matches, best or not

    @classmethod
    def from_runs(cls, found: Sequence[Run]) -> Experiment:
        """The confidence in the matches of all runs together, and within each run."""
        starts = np.cumsum([0, *(len(run.matches.row) for run in found)])
        matches = Matches.concatenate([run.matches for run in found])
        matches = replace(matches, row=np.arange(len(matches.row)))
        groups = tuple(sorted({name for run in found for name in run.groups}))
        codes = [np.array([groups.index(name) for name in run.groups]) for run in found]
        group = np.concatenate([c[run.group] for c, run in zip(codes, found, strict=True)])
        keys = {PSMS: None, **ROLLED_UP}
        best = {
            level: matches if key is None else matches.best(key)
            for level, key in keys.items()
            if key is None or key in matches.keys
        }
        levels = {name: count_decoys(name, of_level) for name, of_level in best.items()}
        if len(groups) > 1:
            levels = {
                name: within_groups(level, group[level.matches.row], len(groups))
                for name, level in levels.items()
            }
        run = np.repeat(np.arange(len(found)), np.diff(starts))
        within_run = q_values_within(matches, run * len(groups) + group)
        return cls(starts, levels, within_run, group, groups, sum(run.rows for run in found))

    @property
    def is_grouped(self) -> bool:
        return len(self.groups) > 1

    def counts(self, by: IntArray, size: int) -> IntArray:
        """The numbers of targets and decoys among the best matches, shape (size, 2), by index."""
        decoy = self.levels[PSMS].matches.labeled
        return np.bincount(2 * by + decoy, minlength=2 * size).reshape(size, 2)

    def notices(self, discriminating: Sequence[str]) -> tuple[Notice, ...]:
        """Warnings of decoys unlike wrong targets, and of groups with few decoys."""
        of_decoys = check_decoys(self.levels[PSMS].matches, discriminating)
        return (*of_decoys, *self._few_decoys())

    def _few_decoys(self) -> tuple[Notice, ...]:
        """A warning of groups with too few decoys to say how many of their targets are wrong."""
        decoys = self.counts(self.group, len(self.groups))[:, 1]
        few = [f"{name!r} ({n})" for name, n in zip(self.groups, decoys, strict=True) if n < FEW]
        if not self.is_grouped or not few:
            return ()
        named = ", ".join(few[:MAX_NAMED]) + (", ..." if len(few) > MAX_NAMED else "")
        message = f"groups with too few decoys to say where 1% are wrong: {named}"
        return (Notice("few-decoys", message),)

    def write(self, folder: str, rows: Rows, shards: str) -> None:
        """Write the tables of all levels from the shards of the runs."""
        import pyarrow.parquet as pq

        shown, names = file_names(rows), pa.array(self.groups, pa.string())
        further = {level: [*self._further(level), *rows.kept] for level in self.levels}
        with level_tables(folder, self.levels, further) as add:
            for number, (shard, part) in enumerate(runs(rows).items()):
                files = pa.array([shown[source.name] for source in part.tables[0].shards])
                start = int(self.starts[number])
                for texts in pq.ParquetFile(os.path.join(shards, shard)).iter_batches(AT_ONCE):
                    end = start + texts.num_rows
                    columns: dict[str, Any] = {
                        **{name: texts[name] for name in ("id", "peptide", "proteins")},
                        **{name: texts[f"{KEPT}{name}"] for name in rows.kept},
                        "file": files.take(texts["file"]),
                        RUN_Q_VALUE: pa.array(self.run_q_value[start:end]),
                        "group": names.take(pa.array(self.group[start:end])),
                    }
                    add(start, pa.table(columns))
                    start = end

    def _further(self, level: str) -> list[str]:
        """The columns of a table that Percolator's has not."""
        of_run = [RUN_Q_VALUE] if level == PSMS else []
        return ["file", *of_run, *(["group"] if self.is_grouped else [])]


def score_runs(
    matches: MatchRows,
    scorer: HonestScorer | ScoreModel,
    engine: Engine,
    shards: str,
    grouping: Grouping | None = None,
) -> Experiment:
    """Score all runs into a directory of shards, and count their decoys together."""
    more, rows = () if grouping is None else grouping.columns, matches.rows
    step = WriteRuns(scorer, matches, grouping)
    rows = replace(rows, kept=tuple(dict.fromkeys((*rows.kept, *matches.columns, *more))))
    if isinstance(scorer, HonestScorer):  # which knows its rows by their number
        for shard, file in zip(rows.tables[0].shards, scorer.files[0], strict=True):
            shard.set_num_rows(file.rows)
    parts = runs(rows)
    found = engine.write_parts(step, rows, parts, "score", shards)
    if grouping is not None:
        groups = {name for run in found for name in run.groups}
        check_groups(len(groups), sum(len(run.matches.row) for run in found), grouping.by)
    kinds = {
        part.tables[0].shards[0].name: {*np.unique(run.matches.labeled).tolist()}
        for part, run in zip(parts.values(), found, strict=True)
    }
    check_kinds(kinds)
    return Experiment.from_runs(found)


# ---- In numbers


def summarize(experiment: Experiment, rows: Rows, notices: Sequence[Notice]) -> MatchesDocument:
    """The numbers of an experiment."""
    shown, psms = file_names(rows), experiment.levels[PSMS]
    names = [shown[part.tables[0].shards[0].name] for part in runs(rows).values()]
    run = np.repeat(np.arange(len(names)), np.diff(experiment.starts))
    target, score = ~psms.matches.labeled, psms.matches.score
    edges = np.linspace(score.min(), score.max(), HISTOGRAM_BINS + 1)
    targets, decoys = (np.histogram(score[kind], edges)[0] for kind in (target, ~target))

    def parts(names: Sequence[str], by: IntArray, q_value: FloatArray) -> list[PartCounts]:
        counts, size = experiment.counts(by, len(names)), len(names)
        wrong = (np.bincount(by[target], psms.pep[target], size) / counts[:, 0].clip(1)).clip(0, 1)
        if by is run:
            wrong = (counts[:, 1] / counts[:, 0].clip(1)).clip(0, 1)
        accepted = np.bincount(by[target & (q_value <= ACCEPTED)], minlength=size)
        columns = [c.tolist() for c in (*counts.T, wrong, accepted)]
        return [PartCounts(*values) for values in zip(names, *columns, strict=True)]

    return MatchesDocument(
        n_matches=experiment.rows,
        levels={
            name: LevelCounts(
                int((~level.matches.labeled).sum()),
                int(level.matches.labeled.sum()),
                1 - level.calibration.shares.alpha,
                [(rate, level.accepted(rate)) for rate in RATES],
            )
            for name, level in experiment.levels.items()
        },
        runs=parts(names, run, experiment.run_q_value),
        groups=parts(experiment.groups, experiment.group, psms.q_value)
        if experiment.is_grouped
        else None,
        histogram=Histogram(edges.tolist(), targets.tolist(), decoys.tolist()),
        warnings=[*notices],
    )
