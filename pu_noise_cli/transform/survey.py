"""The one pass before training: what the columns hold, a sample of the rows, the files' digests.

Surveys of the parts of a table, merged in order, are exactly the survey of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from ..encoding import Profiler
from ..engine import RowsDone
from ..shards import Job
from ..sketch import NEGATIVE
from ..tables import Table
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
        with closing(_Digests(rows.tables if self.digests else (), threads)) as digests:
            for chunk in rows.chunks([*rows.features, *group]):
                digests.reading(chunk.file)
                survey.seen[chunk.table, chunk.file] += chunk.batch.num_rows
                survey.profiler.add(chunk)
                rows.groups(chunk)  # all must have one, whether sampled or not
                survey.labeled.add(chunk, chunk.labeled)
                survey.others.add(chunk, ~chunk.labeled)
                survey.negatives += int((chunk.sets == NEGATIVE).sum())
                done(chunk.batch.num_rows)
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
    """The SHA-256 of files, each taken when its rows are read, so that it is fetched once.

    Where there are several threads, one of them does that while the rows are worked on.
    """

    def __init__(self, tables: Iterable[Table], threads: int) -> None:
        self.waiting = {shard.name: shard for table in tables for shard in table.shards}
        self.pool = ThreadPoolExecutor(1) if threads > 1 else None
        self.begun: dict[str, Future[str] | str] = {}  # by path

    def reading(self, file: str) -> None:
        """Rows of a file are being read."""
        if file in self.waiting:
            shard = self.waiting.pop(file)
            digest = shard.sha256() if self.pool is None else self.pool.submit(shard.sha256)
            self.begun[shard.path] = digest

    def found(self) -> dict[str, str]:
        """The digests by path, those of files without rows included."""
        for name in [*self.waiting]:
            self.reading(name)
        return {
            path: digest if isinstance(digest, str) else digest.result()
            for path, digest in self.begun.items()
        }

    def close(self) -> None:
        """Wait for nothing: after an error nobody wants the rest."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
