"""Who does the work on a table: this process or a Dask cluster, into one file or into shards.

Results are the same bytes for any number of threads, shards and workers. A step on a shard depends
on nothing but its rows, so it can be done again anywhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from .. import __version__
from ..errors import InputError, MachineError, UsageError, option
from ..tables.files import read_json
from ..tables.reading import MANIFEST, READERS, Manifest, Reader
from ..tables.results import obsolete_files, take_names
from ..tables.rows import SETS, Rows
from ..tables.writing import MemoryTable, check_table_target, make_directory, temporary_directory

Item = TypeVar("Item")
Result = TypeVar("Result")
RowsDone = Callable[[int], None]  # takes the number of further rows that are done
ShareDone = Callable[[float], None]  # takes the fraction of the work that is done

# ---- Threads: BLAS gets one, as its division of a sum among several shows in the last digits

AHEAD = 4  # chunks scored at once; with more, the thread that reads and writes sets the pace


@functools.cache
def _blas() -> ThreadpoolController:
    """The BLAS that numpy calls; finding it takes longer than limiting it."""
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """A context in which BLAS uses one thread, so that sums do not depend on the machine."""
    return _blas().limit(limits=1)


def ahead(
    task: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[tuple[Item, Result]]:
    """Each item with the result of its task, in order, computed a few items ahead."""
    if threads == 1:
        for item in items:
            yield item, task(item)
        return
    threads = min(threads, AHEAD)
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(task, item)))
                if len(waiting) > threads:
                    item, future = waiting.popleft()
                    yield item, future.result()
            for item, future in waiting:
                yield item, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def in_threads(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    progress: ShareDone | None = None,
) -> list[Result]:
    """The results of independent tasks, in order, with BLAS and OpenMP on one thread."""
    items = list(items)
    # OpenMP's limit belongs to the thread that sets it, hence the initializer
    with (
        threadpool_limits(1),
        ThreadPoolExecutor(threads, initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        futures = [pool.submit(task, item) for item in items]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done / len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


# ---- Shards


@dataclass(frozen=True)
class Job:
    """Rows to work on, and the table to write, if any."""

    part: Rows
    out: str | MemoryTable | None = None
    is_shard: bool = False  # the table is one of several


def is_sharded(out: str) -> bool:
    """Whether an output is a directory of shards: its name ends in a slash."""
    return out.endswith("/")


def check_parquet(rows: Rows, needed_for: str) -> None:
    """Raise a usage error unless all tables are Parquet files, which can be read in parts."""
    for table in rows.tables:
        for shard in table.shards:
            if shard.num_rows is None or shard.spool is not None:
                raise UsageError(
                    f"{needed_for}: shards are made of Parquet files, not {shard.name}"
                )


def check_sharded_target(out: str, rows: Rows, in_results: bool = False) -> None:
    """Raise an error, before any work is done, if an output cannot be a directory of shards.

    In a directory of results it may not be a link, and shards of an earlier command are replaced.
    """
    check_parquet(rows, f"{option('out')} {out}")
    if rows.ignores:  # a shard has as many rows as its file
        raise UsageError(f"{option('ignore_value')} cannot be used with shards")
    if rows.num_rows == 0:
        raise InputError(f"{rows.tables[0].name}: the table has no rows")
    names = _shard_names(rows)
    sources = {os.path.realpath(shard.path) for table in rows.tables for shard in table.shards}
    for name in names:
        if os.path.realpath(os.path.join(out, name)) in sources:
            raise UsageError(f"{out}: would overwrite {name!r}, which is an input")
    folder, replaced = Path(out), [*names]
    if not in_results:
        make_directory(out)
    elif folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{out}: is not a directory, or a link to one")
    else:
        new = [f"{folder.name}/{name}" for name in names]
        replaced += [os.path.basename(name) for name in obsolete_files(folder.parent, new)]
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_symlink():
            raise UsageError(f"{path}: is a symbolic link; remove it")
        if path.name[0] not in "._" and path.name not in replaced:
            raise UsageError(f"{out}: holds {path.name!r}, which would be read as a shard")


def _shard_names(rows: Rows) -> list[str]:
    """The shards' file names: those of their sources, prefixed by the set if tables are several."""
    several = len(rows.tables) > 1
    names = [
        (f"{SETS[code]}-" if several else "") + os.path.basename(shard.name)
        for code, table in zip(rows.sets, rows.tables, strict=True)
        for shard in table.shards
    ]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or names != sorted(names):
        problem = f"two are {twice[0]!r}" if twice else "sorted by name, their order changes"
        raise InputError(f"the files of a table in shards must differ by name: {problem}")
    if hidden := [name for name in names if name[0] in "._"]:
        raise InputError(f"{hidden[0]}: a shard of this name would not be read; rename the file")
    return names


# ---- Workers

FAN_IN = 4  # results that are merged at a time: each may hold as many rows as are trained on
CONNECT_SECONDS = 30


class Step(Protocol[Result]):
    """Works on the rows of one job; results can be merged."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Result: ...

    @staticmethod
    def merge(results: Sequence[Result]) -> Result:
        """Merge results without changing them: a worker may have to merge them again."""


class CountRows:
    """Counts the rows of each file, by path."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for table in (table for table in job.part.tables if table.shards):
            for batch in table.batches(table.columns[:1]):
                counts[table.shards[0].path] += batch.rows.num_rows
        return counts

    @staticmethod
    def merge(results: Sequence[Counter[str]]) -> Counter[str]:
        return sum(results, Counter())


class Progress(Protocol):
    """Shows how far the work is."""

    def stage(self, label: str) -> contextlib.AbstractContextManager[ShareDone]:
        """A function that takes the fraction done."""

    def rows(self, label: str, total: int | None) -> contextlib.AbstractContextManager[RowsDone]:
        """A function that takes numbers of rows done."""

    def took(self, label: str, seconds: float) -> None:
        """A stage is over."""


class NullProgress:
    """Shows nothing."""

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[ShareDone]:
        yield lambda fraction: None

    @contextlib.contextmanager
    def rows(self, label: str, total: int | None) -> Iterator[RowsDone]:
        yield lambda rows: None

    def took(self, label: str, seconds: float) -> None:
        pass


def _reduce_here(step: Step[Result], jobs: Sequence[Job], done: RowsDone, threads: int) -> Result:
    results: list[Result] = []
    for job in jobs:
        results.append(step(job, done, threads))
        if len(results) == FAN_IN:  # do not keep the results of thousands of shards
            results = [step.merge(results)]
    return step.merge(results)


def _reduce_on_cluster(client: Any, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Any:
    """A Dask future of the merged results of a step over all jobs.

    If a worker dies, others redo its work: what they write takes its name only when complete.
    """
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        raise UsageError(f"{option('dask')}: the cluster has no workers") from error
    # a task that holds the step can be run again elsewhere; scattered data cannot
    shared = client.submit(_identity, step, pure=False)
    leaves = []
    for job in jobs:
        task = _submit(client, _run_step, shared, job)
        task.add_done_callback(lambda _, rows=job.part.num_rows: done(rows or 0))
        leaves.append(task)
    level = leaves
    while level is leaves or len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [client.submit(step.merge, group, pure=False) for group in groups]
    (merged,) = level
    try:
        if merged.exception() is not None:
            _result(merged)
    except BaseException:
        client.cancel(leaves)
        raise
    return merged


def _result(task: Any) -> Any:
    from distributed import KilledWorker

    try:
        return task.result()
    except (KilledWorker, CancelledError) as error:
        raise MachineError(f"{option('dask')}: the cluster has failed: {error}") from error


def _identity(value: Result) -> Result:
    return value


def _run_step(step: Step[Result], job: Job) -> Result:
    return step(job, lambda rows: None, 1)


def _submit(client: Any, function: Callable[..., Any], *args: Any) -> Any:
    return client.submit(_on_worker, __version__, READERS, function, *args, pure=False)


def _on_worker(
    version: str, readers: Mapping[str, Reader], function: Callable[..., Result], *args: Any
) -> Result:
    """Call a function on a worker; settings among its arguments get the worker's threads.

    Readers that a room above has registered are known here, too.
    """
    import pyarrow as pa
    from distributed import get_worker

    if version != __version__:
        raise UsageError(f"a Dask worker has punoise {__version__}, this is {version}")
    READERS.update(readers)
    pa.set_cpu_count(1)  # a worker runs as many tasks as it has threads
    threadpool_limits(1, user_api="blas")
    threads = get_worker().state.nthreads
    return function(*(replace(a, threads=threads) if hasattr(a, "threads") else a for a in args))


@dataclass(frozen=True)
class Engine:
    """Runs steps over tables, in this process or on a Dask cluster, and keeps the time of each.

    The workers of a cluster see the same files as this process.
    """

    threads: int = 1  # of this process
    client: Any = None  # of the cluster
    progress: Progress = field(default_factory=NullProgress)
    seconds: dict[str, float] = field(default_factory=dict)  # by stage

    def check_target(self, out: str, rows: Rows) -> None:
        """Stop, before any work is done, where an output cannot be a table of the rows."""
        if is_sharded(out):
            check_sharded_target(out, rows)
            return
        if self.client is not None:
            name = option("dask")
            raise UsageError(f"{name} needs shards: let the name after {option('out')} end in '/'")
        check_table_target(out)

    def call(
        self, label: str, function: Callable[..., Result], *args: Any, watched: bool = False
    ) -> Result:
        """The result of one function; a watched one takes `progress`, in this process only."""
        with self.timed(label), self.progress.stage(label) as progress:
            if self.client is None:
                return function(*args, **({"progress": progress} if watched else {}))
            task = _submit(self.client, function, *args)
            result: Result = _result(task)
            return result

    def gather(self, step: Step[Result], rows: Rows, label: str) -> Result:
        """The merged results of a step over all rows."""
        merged: Result = self._reduce(step, self._jobs(rows), rows, label)
        return merged

    def gather_remote(self, step: Step[Any], rows: Rows, label: str) -> Any:
        """The same, left on the cluster: an argument for call()."""
        return self._reduce(step, self._jobs(rows), rows, label, fetch=False)

    def _jobs(self, rows: Rows) -> list[Job]:
        if self.client is None:
            return [Job(rows)]
        check_parquet(rows, option("dask"))
        return [Job(part) for part in rows.parts()]

    def _reduce(
        self, step: Step[Any], jobs: Sequence[Job], rows: Rows, label: str, fetch: bool = True
    ) -> Any:
        with self.timed(label), self.progress.rows(label, rows.num_rows) as done:
            if self.client is None:
                return _reduce_here(step, jobs, done, self.threads)
            merged = _reduce_on_cluster(self.client, step, jobs, done)
            return _result(merged) if fetch else merged

    def write(self, step: Step[Result], rows: Rows, label: str, out: str | MemoryTable) -> Result:
        """The merged results of a step that writes a table, or a directory of shards."""
        result: Result
        if isinstance(out, MemoryTable) or not is_sharded(out):
            result = self._reduce(step, [Job(rows, out)], rows, label)
            return result
        os.makedirs(out, exist_ok=True)
        with temporary_directory(Path(out)) as folder:
            shards = dict(zip(_shard_names(rows), rows.parts(), strict=True))
            result = self.write_parts(step, rows, shards, label, str(folder))
            complete, meanwhile = (Manifest(complete=c, shards=[*shards]) for c in (True, False))
            take_names(folder, Path(out), shards, MANIFEST, complete, meanwhile=meanwhile)
        return result

    def write_parts(
        self, step: Step[Result], rows: Rows, parts: Mapping[str, Rows], label: str, out: str
    ) -> Result:
        """The merged results of a step over parts of the rows; each writes a file of its name."""
        os.makedirs(out, exist_ok=True)
        folder = os.path.abspath(out)
        jobs = [Job(p, os.path.join(folder, name), is_shard=True) for name, p in parts.items()]
        result: Result = self._reduce(step, jobs, rows, label)
        return result

    def count_rows(self, rows: Rows) -> None:
        """Count the rows of files that do not state them, if a cluster is to share the work."""
        if self.client is None or rows.num_rows is not None:
            return
        jobs = [Job(part) for part in rows.parts()]
        counts = self._reduce(CountRows(), jobs, rows, "count")
        for shard in (shard for table in rows.tables for shard in table.shards):
            shard.set_num_rows(counts.get(shard.path, 0))

    @contextlib.contextmanager
    def timed(self, label: str) -> Iterator[None]:
        """A stage whose time is kept and shown."""
        start = time.monotonic()
        yield
        self.seconds[label] = round(time.monotonic() - start, 3)
        self.progress.took(label, self.seconds[label])


@contextlib.contextmanager
def open_engine(dask: str | None, threads: int, progress: Progress) -> Iterator[Engine]:
    """This process, or the cluster whose scheduler has an address or wrote a file."""
    if dask is None:
        yield Engine(threads, None, progress)
        return
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            f"{option('dask')} needs the extra 'dask': pip install 'punoise[dask]'"
        ) from None
    scheduler = read_json(dask) if os.path.isfile(dask) else {"address": dask}
    try:
        client = Client(scheduler["address"], timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{option('dask')} {dask}: no scheduler answers there ({error})"
        ) from error
    with client:
        yield Engine(threads, client, progress)
