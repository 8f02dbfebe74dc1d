"""The first rows of a table do not depend on how rows come."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pu_noise_cli.posterior.candidates import FirstRows


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    size=st.integers(1, 12),
)
def test_the_first_rows_do_not_depend_on_how_rows_come(keys, cuts, size):
    key, score = (np.array([pair[i] for pair in keys], float) for i in range(2))
    empty = FirstRows(pa.schema([("row", pa.int64())]).empty_table(), size=size)
    parts = [empty]
    ends = [0, *sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    for start, end in itertools.pairwise(ends):
        part = empty
        for first in range(start, end, 4):  # chunks
            here = slice(first, min(first + 4, end))
            places = part.select(key[here], score[here], np.ones(here.stop - first, bool))
            rows = first + places
            batch = pa.RecordBatch.from_pydict({"row": pa.array(rows, pa.int64())})
            part = part.with_rows(batch, key[rows], score[rows], rows)
        parts.append(part)
    expected = sorted(range(len(keys)), key=lambda i: (-key[i], -score[i], i))[:size]
    assert FirstRows.merge(parts).table["row"].to_pylist() == expected
    assert FirstRows.merge(parts[::-1]).table["row"].to_pylist() == expected
