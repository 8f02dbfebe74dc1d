"""Options for peptide-spectrum matches: which belong together, and what they are rolled up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .errors import UsageError
from .options import TableOptions
from .parameters import NameList, NameLists, joined, option

if TYPE_CHECKING:
    from .pin_tables import PinRoles
    from .rows import MatchColumns, Rows


@dataclass(frozen=True, kw_only=True)
class SpectrumOption(TableOptions):
    """Commands in which matches of one spectrum compete."""

    spectrum_columns: NameLists = option(
        "--spectrum-columns",
        "Columns",
        "Of the rows with the same values here, matches of one spectrum, only the best counts; "
        "with labeled negatives, which are decoys.  [default of .pin files: scan, mass and file]",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )

    @property
    def of_decoys(self) -> bool:
        return self.of_pin or bool(self.spectrum_columns)

    def rows(self, by: Sequence[str] = ()) -> Rows:
        found = super().rows(by)
        several = any(len(table.shards) > 1 for table in found.tables)
        if found.matches is not None and len(found.tables) > 1 and several:
            raise UsageError(
                "of several files, each is taken for a run with scans of its own, so that targets "
                "and decoys of a spectrum must be in one: give them as --table"
            )
        return found

    def matches(self, pin: PinRoles | None) -> MatchColumns | None:
        from .rows import MatchColumns

        spectrum = joined(self.spectrum_columns) or (pin.spectrum if pin else ())
        if spectrum and not self.labeled_negatives:
            raise UsageError("--spectrum-columns is for decoys: it needs --labeled-are negatives")
        return MatchColumns(spectrum) if spectrum else None


@dataclass(frozen=True, kw_only=True)
class RollUpOptions(SpectrumOption):
    """Commands that roll matches up."""

    peptide_column: str | None = option(
        "--peptide-column",
        "Columns",
        "With matches: also roll them up to these peptides.  [default of .pin files: Peptide]",
        metavar="NAME",
    )
    protein_column: str | None = option(
        "--protein-column",
        "Columns",
        "With matches: also roll them up to these proteins, or groups of proteins.",
        metavar="NAME",
    )

    def matches(self, pin: PinRoles | None) -> MatchColumns | None:
        found = super().matches(pin)
        if found is None:
            if unused := self.given("peptide_column", "protein_column"):
                raise UsageError(f"{unused[0]} goes with --spectrum-columns, or with a .pin file")
            return None
        return replace(
            found,
            peptide=self.peptide_column or (pin.peptide if pin else None),
            protein=self.protein_column,
            proteins=pin.proteins if pin else self.protein_column,
        )
