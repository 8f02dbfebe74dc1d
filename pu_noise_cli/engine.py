"""Who does the work on the parts of a table: this process, or the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeVar

from . import __version__
from .errors import UsageError
from .shards import Job
from .tables import read_json

Result = TypeVar("Result")
RowsDone = Callable[[int], None]
FAN_IN = 16  # results that are merged at a time
CONNECT_SECONDS = 30


class Step(Protocol[Result]):
    """Works on the rows of one job and says what it found; results can be merged."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Result: ...

    @staticmethod
    def merge(results: Sequence[Result]) -> Result: ...


class Engine(Protocol):
    """Does work, wherever that is."""

    def call(self, function: Callable[..., Result], *args: Any, **local: Any) -> Result:
        """The result of one function; keyword arguments are given to it in this process only."""

    def reduce(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Result:
        """The merged results of a step over all jobs."""


class Local:
    """Works in this process, on one job after the other."""

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


class Dask:
    """Works on the workers of a Dask cluster, which see the same files as this process.

    A worker that dies loses nothing but time: Dask gives its tasks to others, and what they write
    takes its name only when it is whole.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def call(self, function: Callable[..., Result], *args: Any, **local: Any) -> Result:
        task = self.client.submit(_call, __version__, function, *args, pure=False)
        return self._result(task)

    def reduce(self, step: Step[Result], jobs: Sequence[Job], done: RowsDone) -> Result:
        submit = self.client.submit
        # a task that holds the step can be run again elsewhere; scattered data cannot
        shared = submit(_itself, step, pure=False)
        level = []
        for job in jobs:
            task = submit(_step, __version__, shared, job, pure=False)
            task.add_done_callback(lambda _, rows=job.part.num_rows: done(rows or 0))
            level.append(task)
        leaves = level
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [submit(step.merge, group, pure=False) for group in groups]
        try:
            return step.merge([self._result(level[0])])
        except BaseException:
            self.client.cancel(leaves)
            raise

    def _result(self, task: Any) -> Any:
        from distributed import KilledWorker

        try:
            return task.result()
        except (KilledWorker, CancelledError) as error:
            raise UsageError(f"--dask: the cluster has failed: {error}") from error


def _itself(value: Result) -> Result:
    return value


def _call(version: str, function: Callable[..., Result], *args: Any) -> Result:
    _check_worker(version)
    return function(*args)


def _step(version: str, step: Step[Result], job: Job) -> Result:
    _check_worker(version)
    return step(job, lambda rows: None, 1)


def _check_worker(version: str) -> None:
    import pyarrow as pa

    if version != __version__:
        raise UsageError(f"a Dask worker has punoise {__version__}, this is {version}")
    pa.set_cpu_count(1)  # a worker runs as many tasks as it has threads


@contextlib.contextmanager
def open_engine(address: str | None, threads: int) -> Iterator[Engine]:
    """This process, or the cluster whose scheduler has the address or wrote the file."""
    if address is None:
        yield Local(threads)
        return
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--dask needs Dask: pip install 'punoise[dask]'") from None
    found = read_json(address) if os.path.isfile(address) else {"address": address}
    try:
        client = Client(found["address"], timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"--dask {address}: no scheduler answers there ({error})") from error
    with client:
        yield Dask(client)
