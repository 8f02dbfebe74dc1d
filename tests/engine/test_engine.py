"""Work on chunks: in order, and a few of them ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pu_noise_cli.scale.engine import AHEAD, ahead


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_chunks_are_scored_a_few_ahead_and_come_in_order(threads: int) -> None:
    taken = []

    def items() -> Iterator[int]:
        for i in range(40):
            taken.append(i)
            yield i

    def task(i: int) -> int:
        time.sleep(0.01 * (i % 3 == 0))
        if i == 30:
            raise ValueError(i)
        return i * i

    found = ahead(task, items(), threads)
    for i in range(30):
        assert next(found) == (i, i * i)
        assert len(taken) <= i + 1 + min(threads, AHEAD) * (threads > 1)
    with pytest.raises(ValueError, match="30"):
        next(found)
    assert len(taken) < 40  # what comes after an error is not read
