"""`apply`: the level of evidence and the points of rows, by thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import option
from ..notices import Notice
from ..scale.engine import Engine
from ..settings import ApplySettings
from ..tables.reading import open_table
from ..tables.rows import Rows
from ..variants.apply import EvidenceRows, GroupRanges, LevelRanges, WriteEvidence


@dataclass(frozen=True)
class AppliedThresholds:
    """The levels of the thresholds, and the rows that have each."""

    levels: tuple[str, ...]  # that of none first
    rows: EvidenceRows
    notices: tuple[Notice, ...]


def apply(settings: ApplySettings, engine: Engine) -> AppliedThresholds:
    """Write EVIDENCE."""
    by, table = settings.by, open_table(settings.table, settings.layout)
    if by is not None:
        table.require(by, option("by"))
    ranges = (LevelRanges if by is None else GroupRanges).read(settings.thresholds)
    points = tuple(settings.add_points)
    step = WriteEvidence(ranges, settings.score_column, points, tuple(settings.na), by)
    rows = Rows.from_tables(
        [table],
        features=step.columns,
        id_columns=settings.id_column,
        keep=(*settings.keep_columns, *(() if by is None else (by,))),
        wanted_by="score_column",
    )
    engine.check_target(settings.out, rows)
    notices: tuple[Notice, ...] = ()
    if isinstance(ranges, GroupRanges):
        assert by is not None
        ranges.check_column(rows, by)
    else:
        notices = ranges.check_predictor(settings.score_column)
    counts = engine.write(step, rows, "apply", settings.out)
    return AppliedThresholds(tuple(ranges.levels), counts, notices)
