"""A share of the metamorphic relations, with the same tables and options in each run."""

from __future__ import annotations

import pytest
from relations import RELATIONS, one_case

SEED, ROUNDS = 44, 5
CASES = [
    (name, i + round * len(RELATIONS))
    for round in range(ROUNDS)
    for i, name in enumerate(RELATIONS)
]


@pytest.mark.parametrize(("name", "number"), CASES, ids=lambda value: str(value))
def test_a_relation_holds(name, number):
    row, fault, _ = one_case(SEED, number)
    assert row.endswith(name)
    assert fault is None
