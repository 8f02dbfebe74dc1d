"""A pool whose results are the same bytes for any number of threads."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController, threadpool_limits

from .base import Matrix, Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK = 4864  # rows at a time: some dozen tiles of the networks
AHEAD = 4  # chunks scored at once; reading and writing, by one thread, set the pace by then


def chunks(n: int) -> Iterator[slice]:
    """Slices of n rows, cut without regard to the number of threads."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


@functools.cache
def _blas() -> ThreadpoolController:
    """The BLAS that numpy calls; finding it takes longer than limiting it."""
    return ThreadpoolController().select(user_api="blas")


def by_chunks(
    score: Callable[[Matrix], NDArray[np.floating[Any]]], features: Matrix
) -> NDArray[np.float64]:
    """score(rows) of all rows, shape (n,), CHUNK rows at a time.

    What score says of a row must not depend on the other rows, nor on the row's place among them.
    """
    out = np.empty(len(features))
    with _blas().limit(limits=1):
        for part in chunks(len(features)):
            out[part] = score(features[part])
    return out


def ahead(
    task: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[tuple[Item, Result]]:
    """Each item with the result of its task, in order, a few items ahead of who takes them."""
    if threads == 1:
        for item in items:
            yield item, task(item)
        return
    threads = min(threads, AHEAD)
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with _blas().limit(limits=1), ThreadPoolExecutor(threads) as pool:
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
