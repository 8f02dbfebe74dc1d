"""A pool whose results are the same bytes for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .base import Matrix, Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK = 4096  # rows whose hidden units or nodes fit into a core's cache


def chunks(n: int) -> Iterator[slice]:
    """Slices of n rows, cut without regard to the number of threads."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def by_chunks(
    score: Callable[[Matrix], NDArray[np.floating[Any]]], features: Matrix, threads: int
) -> NDArray[np.float64]:
    """score(rows) of all rows, shape (n,), CHUNK rows at a time.

    The last chunk is filled up: BLAS sums the rows of a smaller matrix in another order, and a
    row's score is not to depend on how the table was cut.
    """

    def scored(part: slice) -> NDArray[np.float64]:
        rows = features[part]
        if len(rows) < CHUNK:
            rows = np.concatenate([rows, np.zeros((CHUNK - len(rows), rows.shape[1]), rows.dtype)])
        return score(rows)[: part.stop - part.start].astype(np.float64)

    return np.concatenate([np.zeros(0), *in_threads(scored, chunks(len(features)), threads)])


def in_threads(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    progress: Progress | None = None,
) -> list[Result]:
    """The results of independent tasks, in order.

    BLAS and OpenMP are held at one thread: how they divide a sum shows in its last digits.
    """
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
