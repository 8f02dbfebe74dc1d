"""The one pass before training: what the columns hold, a sample of the rows, the files' digests.

Surveys of the parts of a table, merged in order, are exactly the survey of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from ..encoding import Profiler
from ..engine import RowsDone
from ..files import Shard
from ..rows import Rows
from ..shards import Job
from ..sketch import NEGATIVE
from .row_sample import RowSample


@dataclass
class Survey:
    """What a pass over rows has found."""

    profiler: Profiler
    labeled: RowSample
    others: RowSample  # unlabeled rows and known negatives
    negatives: int = 0  # how many of those that were seen are known negatives
    seen: Counter[tuple[int, str]] = field(default_factory=Counter)  # rows, by table and file
    digests: dict[str, str] = field(default_factory=dict)  # SHA-256 of files, by path; if wanted


@dataclass(frozen=True)
class SurveyRows:
    """Profiles the columns, samples the rows and, if wanted, digests the files."""

    size: int  # of the sample; at most half of it are labeled rows
    seed: int
    na: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    digests: bool = False

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Survey:
        rows = job.part
        survey = Survey(
            Profiler(rows, self.na, self.categorical),
            RowSample(self.size // 2, self.seed),
            RowSample(self.size, self.seed),
        )
        group = [] if rows.group_column is None else [rows.group_column]
        with ThreadPoolExecutor(1) as pool:
            digests = _Digests(rows, pool, wait=threads == 1) if self.digests else None
            for chunk in rows.chunks([*rows.features, *group]):
                if digests is not None:
                    digests.reading(chunk.file)
                survey.seen[chunk.table, chunk.file] += chunk.batch.num_rows
                survey.profiler.add(chunk)
                rows.groups(chunk)  # all must have one, whether sampled or not
                survey.labeled.add(chunk, chunk.labeled)
                survey.others.add(chunk, ~chunk.labeled)
                survey.negatives += int((chunk.sets == NEGATIVE).sum())
                done(chunk.batch.num_rows)
            if digests is not None:
                survey.digests = digests.found()
        survey.labeled.cut(self.size // 2)
        survey.others.cut(self.size)
        return survey

    @staticmethod
    def merge(results: Sequence[Survey]) -> Survey:
        """The survey of all rows, of which the results have parts in order."""
        return Survey(
            Profiler.merged([part.profiler for part in results]),
            RowSample.merged([part.labeled for part in results]),
            RowSample.merged([part.others for part in results]),
            sum(part.negatives for part in results),
            sum((part.seen for part in results), Counter()),
            {path: digest for part in results for path, digest in part.digests.items()},
        )


class _Digests:
    """The SHA-256 of the files of rows, each taken when its rows are read: it is fetched once."""

    def __init__(self, rows: Rows, pool: ThreadPoolExecutor, wait: bool) -> None:
        self.waiting = {shard.name: shard for table in rows.tables for shard in table.shards}
        self.pool, self.wait = pool, wait
        self.begun: list[tuple[Shard, Future[str]]] = []

    def reading(self, file: str) -> None:
        """Rows of a file are being read."""
        if file in self.waiting:
            shard = self.waiting.pop(file)
            self.begun.append((shard, self.pool.submit(shard.sha256)))
            if self.wait:
                self.begun[-1][1].result()

    def found(self) -> dict[str, str]:
        """The digests by path, those of files without rows included."""
        for name in [*self.waiting]:
            self.reading(name)
        return {shard.path: digest.result() for shard, digest in self.begun}
