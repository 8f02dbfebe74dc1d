"""BLAS on one thread: how it divides a sum among several shows in the last digits."""

from __future__ import annotations

import os

VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def hold_at_start() -> None:
    """For a process that has not loaded numpy yet; our own threads do the work in parallel."""
    os.environ.update(dict.fromkeys(VARIABLES, "1"))


def hold() -> None:
    """For a process that others have started, from now on."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")
