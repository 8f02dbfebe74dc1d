"""Tables of matches, peptides and proteins with PEPs and q-values, in the columns of Percolator.

POSTERIOR of matches: a PEP and a q-value for those that stand for their spectrum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..numerics import FloatArray

if TYPE_CHECKING:
    from ..pipeline import Analysis, Request
from ..posterior.calibration import Calibration, calibrate
from ..posterior.table import Columns, WritePosteriors
from ..prior.document import Prior, shares_for
from ..prior.estimation import estimate_prior
from ..score.sketch import Sketch
from ..tables.rows import Chunk, Rows, as_text
from ..tables.writing import write_atomically
from .matches import COUNTING, Confidence, Matches, posterior_between

PSMS = "psms"
LEVELS = (PSMS, "peptides", "proteins")
COLUMNS = ("PSMId", "score", "q-value", "posterior_error_prob", "peptide", "proteinIds")


def levels(analysis: Analysis, calibration: Calibration, request: Request) -> dict[str, Confidence]:
    """The best matches and what they are rolled up to; each level has a prior of its own."""
    if analysis.matches is None:
        return {}
    found = {PSMS: Confidence.of(analysis.matches, calibration)}
    for name in LEVELS[1:]:
        if name in analysis.matches.keys:
            best = analysis.matches.best(name)
            if len(np.unique(best.labeled)) == 1:
                kind = "decoy" if best.labeled[0] else "target"
                raise InputError(
                    f"{name}: the best match of each is a {kind}, so wrong ones cannot be counted; "
                    f"are there {name} of decoys in --{name[:-1]}-column, under names of their own?"
                )
            found[name] = _rolled_up(best, request)
    return found


def _rolled_up(matches: Matches, request: Request) -> Confidence:
    """Matches that each stand for something: the best of many wrong ones is seldom a bad one."""
    prior = estimate_prior(
        matches.sketch,
        request.method if request.stated is None else COUNTING,
        request.estimation,
        competed=True,
    )
    return Confidence.of(matches, calibrated(prior, matches.sketch))


def calibrated(prior: Prior, sketch: Sketch) -> Calibration:
    """The calibration of scores: of matches a smooth one, with α as certain where decoys count.

    The decoys near a score say how many targets there are wrong, however many there are in all.
    """
    sketch, shares, _ = shares_for(prior, sketch)
    if prior.method != COUNTING:
        return calibrate(sketch, shares)
    # they say it as they are: PEPs are not scaled, and average to α as nearly as a curve can
    found = calibrate(sketch, replace(shares, draws=(), from_these_rows=False), smooth=True)
    return replace(found, notices=tuple(n for n in found.notices if n.code != "posterior-mean-off"))


def write_levels(rows: Rows, found: Mapping[str, Confidence], folder: str) -> None:
    """One table for each level: its targets, in the order of the rows."""
    matches = rows.matches
    assert matches is not None
    shown = [column for column in (matches.peptide, matches.proteins) if column is not None]
    with ExitStack() as stack:
        files = {name: stack.enter_context(_table(f"{folder}/{name}.tsv")) for name in found}
        first_row = 0
        for chunk in rows.chunks([*rows.id_columns, *shown]):
            empty = pa.array([""] * chunk.batch.num_rows)
            columns = (matches.peptide, matches.proteins)
            texts = [empty if column is None else as_text(chunk, column) for column in columns]
            for name, level in found.items():
                for line in _lines(level, first_row, [rows.ids(chunk), *texts]):
                    files[name].write(line.encode())
            first_row += chunk.batch.num_rows


@contextmanager
def _table(name: str) -> Iterator[IO[Any]]:
    with write_atomically(name) as file:
        file.write(("\t".join(COLUMNS) + "\n").encode())
        yield file


def _lines(level: Confidence, first_row: int, texts: list[pa.Array]) -> Iterator[str]:
    """The targets among consecutive rows, proteins parted by tabs as Percolator has them."""
    there, here = level.places(first_row, len(texts[0]))
    target = ~level.matches.labeled[here]
    there, here = there[target], here[target]
    ids, peptides, proteins = (text.take(pa.array(there)).to_pylist() for text in texts)
    numbers = (level.matches.score, level.q_value, level.pep)
    scores, q_values, peps = (np.asarray(values[here]).tolist() for values in numbers)
    for fields in zip(ids, scores, q_values, peps, peptides, proteins, strict=True):
        yield "\t".join(map(str, fields)) + "\n"


OF_MATCHES = ("pep", "q_value")  # null on those that are not the best of their spectrum


@dataclass(frozen=True)
class WriteMatchPosteriors(WritePosteriors):
    """Writes POSTERIOR of matches that have scores."""

    best: Confidence  # those that have PEPs and q-values

    @classmethod
    def of(cls, calibration: Calibration, columns: Columns, best: Confidence) -> WritePosteriors:
        """What writes the columns of a calibration, and those of the best matches."""
        cells = len(calibration.sketch.edges)
        columns = {**columns, **{name: np.full(cells, np.nan) for name in OF_MATCHES}}
        return cls(calibration.sketch, columns, calibration.label_sign, best)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        found = dict(zip(names, super().arrays(names, chunk, scores), strict=True))
        there, here = self.best.places(chunk.first_row, len(scores))
        mine = {"posterior": posterior_between(self.best.calibration, scores)}
        for name, values in zip(OF_MATCHES, (self.best.pep, self.best.q_value), strict=True):
            mine[name] = np.full(len(scores), np.nan)
            mine[name][there] = values[here]
        found |= {name: pa.array(values, from_pandas=True) for name, values in mine.items()}
        return list(found.values())
