"""What each column contributes to a learned score: columns.tsv.

The separation of a model is the difference between the mean logits of labeled and unlabeled rows
that it did not learn from. A column is shuffled, so that it says nothing about its row, and the
fraction of the separation that is lost is the column's share. In a linear model shares add up to 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from ..numerics import FloatArray, IntArray, Matrix
from ..scale.engine import in_threads
from ..tables.columns import Column
from ..tables.reading import open_table
from ..tables.records import as_batch, read_records
from ..tables.writing import write_table
from .classifiers import PROBED, Part, Training, probed_rows

COLUMNS = "columns.tsv"
MAX_SHUFFLED = 150  # columns, the most influential ones; the others get no share
SCREENED = 256  # rows of each kind by which the most influential columns are found
DOMINANT = 0.8  # a share from which a column may tell how rows were labeled
WRONG_WAY = 0.02  # a negative share from which a column pulls the wrong way
MIN_AGREEING = 0.75  # of the members
MIN_CORRELATION = 0.5  # between a column and its effect, for a direction


class Contribution(Struct, frozen=True):
    """A row of columns.tsv: a column's part in the separation of labeled from unlabeled rows."""

    column: str
    share: float | None  # to four digits after the point; None if the column was not shuffled
    spread: float | None  # standard deviation over members, likewise
    direction: str  # of the score as the column rises: "higher", "lower", "mixed"; "" if unordered
    flag: str  # "dominant", "wrong way" or ""


def contributions(
    training: Training,
    parts: Sequence[Part],
    columns: Sequence[Column],
    sign: float,
    seed: int,
    threads: int,
) -> tuple[Contribution, ...]:
    """The contributions of all columns, by falling share.

    Parameters
    ----------
    columns
        The columns of the table, whose features are the columns of the training matrix, in order.
    sign
        -1 if the labeled rows are negatives: then a high score means unlabeled.
    """
    rows = probed_rows(training.labeled)
    x = np.ascontiguousarray(training.features[rows])
    last = np.cumsum([len(column.feature_names) for column in columns])
    slices = [
        slice(int(end) - len(column.feature_names), int(end))
        for column, end in zip(columns, last, strict=True)
    ]
    shuffled = _most_influential(x, parts, slices)
    measured = in_threads(
        lambda part: _losses(x, part, [slices[i] for i in shuffled], seed, sign),
        parts,
        threads,
        lambda fraction: None,
    )
    usable = [part for part in measured if part is not None]
    separation = sum(part.separation for part in usable) / max(1, len(usable))
    if not separation > 0:
        return tuple(Contribution(column.name, None, None, "", "") for column in columns)
    shares = np.stack([part.losses for part in usable], axis=1) / separation
    correlation = np.mean([part.correlation for part in usable], axis=0)
    found = [
        _contribution(columns[shuffled[i]], shares[i], float(correlation[i]), len(columns))
        for i in sorted(range(len(shuffled)), key=lambda i: -shares[i].mean())
    ]
    rest = sorted({*range(len(columns))} - {*shuffled})
    return (*found, *(Contribution(columns[i].name, None, None, "", "") for i in rest))


def _contribution(
    column: Column, shares: FloatArray, correlation: float, columns: int
) -> Contribution:
    """The contribution of a column with these shares in each member, shape (k,)."""
    share, direction, flag = float(shares.mean()), "mixed", ""
    if column.kind == "category":
        direction = ""
    elif abs(correlation) >= MIN_CORRELATION:
        direction = "higher" if correlation > 0 else "lower"
    if share >= DOMINANT and columns > 2:
        flag = "dominant"
    elif share <= -WRONG_WAY and (shares < 0).mean() >= MIN_AGREEING:
        flag = "wrong way"
    spread = float(shares.std())
    return Contribution(column.name, round(share, 4), round(spread, 4), direction, flag)


@dataclass(frozen=True)
class _Measured:
    """The separation by one member, and what is lost of it without each of c columns."""

    separation: float
    losses: FloatArray  # (c,)
    correlation: FloatArray  # (c,), of the change of a value and the change of the score


def _losses(
    x: Matrix, part: Part, slices: Sequence[slice], seed: int, sign: float
) -> _Measured | None:
    """What a member loses, by the rows it has not seen; None if they are all of one kind."""
    kinds = [np.flatnonzero(part.unseen[:PROBED]), PROBED + np.flatnonzero(part.unseen[PROBED:])]
    if not all(map(len, kinds)):
        return None
    rows = np.concatenate(kinds)
    weights = np.concatenate([np.full(len(kind), 1 / len(kind)) for kind in kinds])
    weights[len(kinds[0]) :] *= -1
    unseen = x[rows]
    edits = [(features, x[_shuffled(seed, features.start)[rows], features]) for features in slices]
    losses, correlation = np.empty(len(slices)), np.zeros(len(slices))
    for place, change in enumerate(part.member.changes(unseen, edits)):
        losses[place] = -(weights * change).sum()
        features, values = edits[place]
        moved = values[:, 0] - unseen[:, features.start]
        correlation[place] = sign * _correlation(moved, change)
    return _Measured(float((weights * part.member.logit(unseen)).sum()), losses, correlation)


def _correlation(first: Matrix, second: FloatArray) -> float:
    change, effect = (values - values.mean(dtype=np.float64) for values in (first, second))
    norm = float(np.sqrt((change**2).sum() * (effect**2).sum()))
    return float((change * effect).sum()) / norm if norm > 0 else 0.0


def _shuffled(seed: int, feature: int) -> IntArray:
    """A permutation of the probed rows that gives half of each kind the values of the other."""
    rng = np.random.default_rng([seed, feature])
    labeled, others = rng.permutation(PROBED), PROBED + rng.permutation(PROBED)
    swapped = slice(None, None, 2)
    labeled[swapped], others[swapped] = others[swapped].copy(), labeled[swapped].copy()
    return np.concatenate([labeled, others])


def _most_influential(x: Matrix, parts: Sequence[Part], slices: Sequence[slice]) -> list[int]:
    """The columns on which the logit depends most, at some of the rows."""
    if len(slices) <= MAX_SHUFFLED:
        return list(range(len(slices)))
    some = np.concatenate([x[:SCREENED], x[PROBED : PROBED + SCREENED]])
    influence = np.sum([part.member.influence(some) for part in parts], axis=0)
    by_column = np.add.reduceat(influence, [one.start for one in slices])
    order = np.argsort(-by_column, kind="stable")[:MAX_SHUFFLED]
    return sorted(int(place) for place in order)


def write_columns(found: Sequence[Contribution], directory: str) -> None:
    """Write columns.tsv."""
    write_table(os.path.join(directory, COLUMNS), as_batch(found, Contribution))


def read_columns(directory: str) -> tuple[Contribution, ...]:
    """The contributions in columns.tsv of a run; none if there is no such file."""
    path = os.path.join(directory, COLUMNS)
    if not os.path.isfile(path):
        return ()
    return tuple(read_records(open_table(path), Contribution, COLUMNS))
