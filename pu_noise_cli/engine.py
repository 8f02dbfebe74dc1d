"""Who does the work on a table: this process or a Dask cluster; how far it is, what is kept."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from . import __version__, blas
from .errors import MachineError, UsageError
from .files import read_json
from .rows import Rows
from .shards import Job, begin, finish, is_sharded, plan

Result = TypeVar("Result")
RowsDone = Callable[[int], None]  # takes the number of further rows that are done
ShareDone = Callable[[float], None]  # takes the share of the work that is done
FAN_IN = 4  # results that are merged at a time: each may hold as many rows as are trained on
CONNECT_SECONDS = 30


class Step(Protocol[Result]):
    """Works on the rows of one job and says what it found; results can be merged."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Result: ...

    @staticmethod
    def merge(results: Sequence[Result]) -> Result:
        """One result for all, which stay as they are: a worker may have to merge them again."""


class WritingStep(Step[Result], Protocol[Result]):
    """A step that writes a table."""

    def digest(self, rows: Rows) -> str:
        """A digest of all that the table depends on but the values of the rows."""


class Watcher(Protocol):
    """Is told how far the work is."""

    def stage(self, label: str) -> contextlib.AbstractContextManager[ShareDone]:
        """A function that takes the share done, for a stage of unknown steps."""

    def rows(self, label: str, total: int | None) -> contextlib.AbstractContextManager[RowsDone]:
        """A function that takes numbers of rows done."""

    def took(self, label: str, seconds: float) -> None:
        """A stage is over."""


class Nobody:
    """Watches nothing."""

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[ShareDone]:
        yield lambda share: None

    @contextlib.contextmanager
    def rows(self, label: str, total: int | None) -> Iterator[RowsDone]:
        yield lambda rows: None

    def took(self, label: str, seconds: float) -> None:
        pass


class Workers(Protocol):
    """Do work, wherever that is."""

    def call(self, function: Callable[..., Result], *args: Any, **local: Any) -> Result:
        """The result of one function; keyword arguments are given to it in this process only."""

    def reduce(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Result:
        """The merged results of a step over all jobs."""

    def reduce_there(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Any:
        """The same, left where it is: an argument for call()."""


class Local:
    """This process, which does one job after the other."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def call(self, function: Callable[..., Result], *args: Any, **local: Any) -> Result:
        return function(*args, **local)

    def reduce(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Result:
        results: list[Result] = []
        for job in jobs:
            results.append(step(job, done, self.threads))
            if len(results) == FAN_IN:  # not to hold the results of thousands of shards
                results = [step.merge(results)]
        return step.merge(results)

    def reduce_there(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Any:
        return self.reduce(step, jobs, done)


class Dask:
    """The workers of a Dask cluster, which see the same files as this process.

    If a worker dies, its work is redone by others; what they write takes its name only when it is
    whole.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def call(self, function: Callable[..., Result], *args: Any, **local: Any) -> Result:
        task = self.client.submit(_call, __version__, function, *args, pure=False)
        return self._result(task)

    def reduce(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Result:
        merged: Result = self._result(self.reduce_there(step, jobs, done))
        return merged

    def reduce_there(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Any:
        submit = self.client.submit
        # a task that holds the step can be run again elsewhere; scattered data cannot
        shared = submit(_itself, step, pure=False)
        leaves = []
        for job in jobs:
            task = submit(_step, __version__, shared, job, pure=False)
            task.add_done_callback(lambda _, rows=job.part.num_rows: done(rows or 0))
            leaves.append(task)
        level = leaves
        while level is leaves or len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [submit(step.merge, group, pure=False) for group in groups]
        (merged,) = level
        try:
            if merged.exception() is not None:
                self._result(merged)
        except BaseException:
            self.client.cancel(leaves)
            raise
        return merged

    def _result(self, task: Any) -> Any:
        from distributed import KilledWorker

        try:
            return task.result()
        except (KilledWorker, CancelledError) as error:
            raise MachineError(f"--dask: the cluster has failed: {error}") from error


def _itself(value: Result) -> Result:
    return value


def _call(version: str, function: Callable[..., Result], *args: Any) -> Result:
    _check_worker(version)
    return function(*map(_with_own_threads, args))


def _with_own_threads(value: Any) -> Any:
    """Settings hold the client's number of threads; a worker has its own."""
    if not hasattr(value, "threads"):
        return value
    from distributed import get_worker

    return replace(value, threads=get_worker().state.nthreads)


def _step(version: str, step: Step[Result], job: Job) -> Result:
    _check_worker(version)
    return step(job, lambda rows: None, 1)


def _check_worker(version: str) -> None:
    import pyarrow as pa

    if version != __version__:
        raise UsageError(f"a Dask worker has punoise {__version__}, this is {version}")
    pa.set_cpu_count(1)  # a worker runs as many tasks as it has threads
    blas.hold()


@dataclass(frozen=True)
class Engine:
    """Workers, somebody who watches, and what there is to keep."""

    workers: Workers
    watcher: Watcher = field(default_factory=Nobody)
    resume: bool = False  # whether shards that are there already are kept
    seconds: dict[str, float] = field(default_factory=dict)  # that each stage took so far

    def call(
        self, label: str, function: Callable[..., Result], *args: Any, watched: bool = False
    ) -> Result:
        """The result of one function; a watched one takes `progress`, in this process only."""
        with self.timed(label), self.watcher.stage(label) as progress:
            local = {"progress": progress} if watched else {}
            return self.workers.call(function, *args, **local)

    def gather(self, step: Step[Result], rows: Rows, label: str) -> Result:
        """The merged results of a step over all rows."""
        merged: Result = self._reduced(self.workers.reduce, step, rows, label)
        return merged

    def gather_there(self, step: Step[Result], rows: Rows, label: str) -> Any:
        """The same, left where it is: an argument for call()."""
        return self._reduced(self.workers.reduce_there, step, rows, label)

    def _reduced(self, reduce: Callable[..., Any], step: Step[Any], rows: Rows, label: str) -> Any:
        whole = isinstance(self.workers, Local)
        jobs = [Job(rows)] if whole else [Job(part) for part in rows.parts()]
        with self.timed(label), self.watcher.rows(label, rows.num_rows) as done:
            return reduce(step, jobs, done)

    def write(self, step: WritingStep[Result], rows: Rows, label: str, out: str) -> Result:
        """The same of a step that writes a table, or a directory of shards."""
        sharded = is_sharded(out)
        jobs = plan(rows, out, step.digest(rows) if sharded else "", self.resume)
        with self.timed(label), self.watcher.rows(label, rows.num_rows) as done:
            if sharded:
                begin(out)
            result = self.workers.reduce(step, jobs, done)
            if sharded:
                finish(out, jobs)
            return result

    @contextlib.contextmanager
    def timed(self, label: str) -> Iterator[None]:
        """A stage, the time of which is kept and told."""
        start = time.monotonic()
        yield
        self.seconds[label] = round(time.monotonic() - start, 3)
        self.watcher.took(label, self.seconds[label])


@contextlib.contextmanager
def open_engine(
    dask: str | None, threads: int, watcher: Watcher, resume: bool = False
) -> Iterator[Engine]:
    """This process, or the cluster whose scheduler has the address or wrote the file."""
    if dask is None:
        yield Engine(Local(threads), watcher, resume)
        return
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--dask needs Dask: pip install 'punoise[dask]'") from None
    found = read_json(dask) if os.path.isfile(dask) else {"address": dask}
    try:
        client = Client(found["address"], timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"--dask {dask}: no scheduler answers there ({error})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise UsageError(f"--dask {dask}: the cluster has no workers") from error
        yield Engine(Dask(client), watcher, resume)
