"""The tables of a search: what their columns are, and what their matches share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ..errors import UsageError, option
from ..settings import Layout, MatchColumns
from ..tables.reading import open_tables
from ..tables.rows import LABELED, UNLABELED, Chunk, Rows, as_text, joined
from .pin import PinColumns, is_pin, run_name

SPECTRUM, PEPTIDE, PROTEIN = "spectrum", "peptide", "protein"
KINDS = {LABELED: "decoys (Label -1)", UNLABELED: "targets (Label 1)"}  # for messages
# labels in other tables with the columns of a .pin file
PIN_LABELS = {
    **dict.fromkeys(("-1", "-1.0", "false"), LABELED),
    **dict.fromkeys(("1", "1.0", "true"), UNLABELED),
}


@dataclass(frozen=True)
class MatchRows:
    """The matches of all runs; targets are unlabeled rows, decoys labeled negatives."""

    rows: Rows
    keys: Mapping[str, tuple[str, ...]]  # the columns of what matches share, by its name
    peptide: str | None  # the columns that the tables show
    proteins: str | None

    @property
    def columns(self) -> list[str]:
        """The columns to read of each match beyond its features and those of Rows."""
        of_keys = (column for columns in self.keys.values() for column in columns)
        shown = (column for column in (self.peptide, self.proteins) if column is not None)
        return [*dict.fromkeys((*of_keys, *shown))]

    def key_texts(self, chunk: Chunk) -> dict[str, pa.Array]:
        """The keys of the rows of a chunk as text, by name."""
        return {
            name: joined([as_text(chunk, column) for column in columns])
            for name, columns in self.keys.items()
        }


def open_matches(
    files: Sequence[str], stated: MatchColumns, features: Sequence[str] = ()
) -> MatchRows:
    """Open the files of all runs; features are those of a model, if one is given."""
    table = open_tables(files, Layout(input_format=stated.input_format), run_name)
    stated = replace(stated, features=tuple(features) or stated.features)
    pin = PinColumns.from_table(table) if is_pin(table) else None
    labels = [(value, LABELED) for value in dict.fromkeys(stated.labeled_value)]
    is_file = table.shards[0].format.kind == "pin"
    if pin is not None and (is_file or not stated.names_roles):
        stated = _completed(stated, pin)
        labels = labels if is_file else [*PIN_LABELS.items()]
    if stated.label_column is None or not stated.spectrum_columns:
        columns = f"{option('label_column')} and {option('spectrum_columns')}"
        raise UsageError(f"{table.name}: is not a .pin file; {columns} say what its columns are")
    keys = _keys(stated)
    rows = Rows.from_tables(
        [table],
        features=stated.features if stated.score_column is None else (stated.score_column,),
        drop=stated.drop_columns,
        id_columns=stated.id_column,
        group_column=stated.group_column,
        label_column=stated.label_column,
        label_values=labels,
        keep=stated.keep_columns,
        other_roles={c: f"the key {name!r}" for name, columns in keys.items() for c in columns},
        set_names={} if pin is None else KINDS,
        labeled_class="negative",
        wanted_by="features" if stated.score_column is None else "score_column",
    )
    proteins = stated.protein_column if pin is None else pin.proteins
    return MatchRows(rows, keys, stated.peptide_column, proteins)


def _completed(stated: MatchColumns, pin: PinColumns) -> MatchColumns:
    """The columns with the roles that those of a .pin file have unless the user says else."""
    named = {*stated.features, *stated.id_column, *stated.keep_columns}
    not_features = [c for c in (pin.label, *pin.others) if c not in named]
    return replace(
        stated,
        label_column=stated.label_column or pin.label,
        id_column=stated.id_column or (pin.id,),
        group_column=stated.group_column or pin.scan,
        drop_columns=(*stated.drop_columns, *not_features),
        spectrum_columns=stated.spectrum_columns or pin.spectrum,
        peptide_column=stated.peptide_column or pin.peptide,
    )


def _keys(stated: MatchColumns) -> dict[str, tuple[str, ...]]:
    rolled_up = {PEPTIDE: stated.peptide_column, PROTEIN: stated.protein_column}
    named = {name: (column,) for name, column in rolled_up.items() if column is not None}
    return {SPECTRUM: tuple(stated.spectrum_columns), **named}
