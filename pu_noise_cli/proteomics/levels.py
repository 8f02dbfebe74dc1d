"""PEPs and q-values of matches, peptides and proteins: their tables, and columns of POSTERIOR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ..errors import InputError, option
from ..numerics import FloatArray
from ..posterior.calibration import Calibration, calibrate
from ..posterior.table import Columns, WritePosteriors
from ..prior.base import ESTIMATORS, Settings, Shares
from ..prior.document import Prior, shares_for
from ..prior.estimation import estimate_prior
from ..score.sketch import Sketch
from ..tables.rows import Chunk, Rows, as_text
from ..tables.writing import write_atomically
from .matches import COUNTING, Confidence, Matches, interpolated_posterior
from .pin import PinRoles

PSMS = "psms"
ROLLED_UP = {"peptides": "peptide", "proteins": "protein"}  # levels with the keys of their matches
PERCOLATOR_COLUMNS = ("PSMId", "score", "q-value", "posterior_error_prob", "peptide", "proteinIds")
MATCH_COLUMNS = ("pep", "q_value")  # of POSTERIOR; null if a match is not the best of its spectrum


def calibrate_matches(prior: Prior, sketch: Sketch, shares: Shares) -> Calibration:
    """Calibrate the scores of the best matches: smoothly if decoys were counted.

    The number of decoys near a score says how many targets are wrong there, whatever α is: PEPs
    are not scaled, and average to α only as nearly as a smooth curve can.
    """
    if prior.method != COUNTING:
        return calibrate(sketch, shares)
    smooth = calibrate(sketch, replace(shares, draws=(), from_these_rows=False), smooth=True)
    notices = tuple(notice for notice in smooth.notices if notice.code != "posterior-mean-off")
    return replace(smooth, notices=notices)


def roll_up(
    matches: Matches, calibration: Calibration, prior: Prior, settings: Settings | None = None
) -> dict[str, Confidence]:
    """PEPs and q-values of the best matches, and of the peptides and proteins that have keys.

    Each level has a prior of its own, by the method of the prior of matches: the best of many wrong
    matches seldom has a low score.

    Parameters
    ----------
    settings
        Those of the prior; by default its beta and seed. Counting decoys needs no others.
    """
    settings = settings or Settings(beta=prior.beta, seed=prior.seed)
    method = prior.method if prior.method in ESTIMATORS else COUNTING  # alpha may be stated
    levels = {PSMS: Confidence(matches, calibration)}
    for level, key in ROLLED_UP.items():
        if key not in matches.keys:
            continue
        best = matches.best(key)
        if len(np.unique(best.labeled)) == 1:
            kind = "decoy" if best.labeled[0] else "target"
            raise InputError(
                f"{level}: the best match of each is a {kind}, so wrong ones cannot be counted; do "
                f"decoys have {level} with names of their own in {option(f'{key}_column')}?"
            )
        own = estimate_prior(best.sketch(), method, settings, best_only=True)
        if own.alpha is None:  # too few to be told apart by their scores, but not to be counted
            own = estimate_prior(best.sketch(), COUNTING, settings, best_only=True)
        sketch, shares, _ = shares_for(own, best.sketch())
        levels[level] = Confidence(best, calibrate_matches(own, sketch, shares))
    return levels


# ---- Tables in Percolator's format


def write_levels(rows: Rows, levels: Mapping[str, Confidence], folder: str) -> None:
    """Write one table for each level: its targets, in the order of the rows."""
    shown = _shown_columns(rows)
    wanted = [*rows.id_columns, *(column for column in shown if column is not None)]
    with ExitStack() as stack:
        files = {name: stack.enter_context(_table(f"{folder}/{name}.tsv")) for name in levels}
        first_row = 0
        for chunk in rows.chunks(wanted):
            empty = pa.array([""] * chunk.batch.num_rows)
            texts = [empty if column is None else as_text(chunk, column) for column in shown]
            for name, level in levels.items():
                for line in _lines(level, first_row, [rows.ids(chunk), *texts]):
                    files[name].write(line.encode())
            first_row += chunk.batch.num_rows


def _shown_columns(rows: Rows) -> tuple[str | None, str | None]:
    """The columns of peptides and of proteins, which a .pin file lists for each match."""
    columns = {name: parts[0] for name, parts in rows.keys}
    table = rows.tables[0]
    if table.shards[0].format.kind == "pin":
        return columns.get("peptide"), PinRoles.from_table(table).proteins
    return columns.get("peptide"), columns.get("protein")


@contextmanager
def _table(name: str) -> Iterator[IO[Any]]:
    with write_atomically(name) as file:
        file.write(("\t".join(PERCOLATOR_COLUMNS) + "\n").encode())
        yield file


def _lines(level: Confidence, first_row: int, texts: list[pa.Array]) -> Iterator[str]:
    """The targets among consecutive rows; proteins are separated by tabs, as in Percolator."""
    places, indices = level.locate(first_row, len(texts[0]))
    target = ~level.matches.labeled[indices]
    places, indices = places[target], indices[target]
    ids, peptides, proteins = (text.take(pa.array(places)).to_pylist() for text in texts)
    numbers = (level.matches.score, level.q_value, level.pep)
    scores, q_values, peps = (np.asarray(values[indices]).tolist() for values in numbers)
    for fields in zip(ids, scores, q_values, peps, peptides, proteins, strict=True):
        yield "\t".join(map(str, fields)) + "\n"


# ---- Columns of POSTERIOR


@dataclass(frozen=True)
class WriteMatchPosteriors(WritePosteriors):
    """Writes POSTERIOR of matches that have scores."""

    best: Confidence  # of each spectrum, with PEPs and q-values

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, columns: Columns, best: Confidence
    ) -> WritePosteriors:
        """The step that writes the columns of a calibration, and those of the best matches."""
        cells = len(calibration.sketch.edges)
        columns = {**columns, **{name: np.full(cells, np.nan) for name in MATCH_COLUMNS}}
        return cls(calibration.sketch, columns, calibration.label_sign, best)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        """The named columns of the rows of a chunk."""
        arrays = dict(zip(names, super().arrays(names, chunk, scores), strict=True))
        places, indices = self.best.locate(chunk.first_row, len(scores))
        own = {"posterior": interpolated_posterior(self.best.calibration, scores)}
        for name, values in zip(MATCH_COLUMNS, (self.best.pep, self.best.q_value), strict=True):
            own[name] = np.full(len(scores), np.nan)
            own[name][places] = values[indices]
        arrays |= {name: pa.array(values, from_pandas=True) for name, values in own.items()}
        return list(arrays.values())
