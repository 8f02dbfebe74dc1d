"""`matches`: peptide-spectrum matches of one or many runs to PSMs, peptides and decoys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..settings import MatchSettings
from .options import command, engine_for
from .process import Console

if TYPE_CHECKING:
    from ..recipes.matches import MatchResult

SHOWN_RATES = (0.01, 0.05)  # of false discoveries
FILTER = "filter on the column q-value; run_q-value is for a run that is reported alone"


@command("matches", MatchSettings)
def matches(settings: MatchSettings, console: Console) -> None:
    """PSMs, peptides and decoys from the matches of a search.

    Takes .pin files, directories or quoted globs of them, with targets and decoys together or in
    files that are named alike but for these two words. One model learns from all runs. Writes
    psms.tsv and peptides.tsv (with --protein-column also proteins.tsv) in Percolator's columns, the
    decoys beside them (decoys.psms.tsv, ...), report.html, matches.json, model.punoise and
    provenance.json into DIR. Filter on the column q-value; run_q-value is for a run that is
    reported alone.

    \b
    punoise matches search.pin --out-dir results
    punoise matches 'runs/*.pin' --by charge --out-dir results
    punoise matches --model results/model.punoise new.pin --out-dir new
    """
    from ..recipes.matches import run_matches

    with engine_for(settings.process, console) as engine:
        result = run_matches(settings, engine, settings.out_dir)
    print_matches(result, settings.out_dir, console)
    console.conclude(result.notices)


def print_matches(result: MatchResult, out_dir: str, console: Console) -> None:
    """The results in a few lines."""
    summary = result.document
    if result.trained is not None:
        console.print_trained(result.trained)
    spectra = summary.levels["psms"].targets + summary.levels["psms"].decoys
    runs = len(summary.runs)
    console.say(f"runs      {runs}, with {summary.n_matches:,} matches of {spectra:,} spectra")
    for name, level in summary.levels.items():
        accepted = dict(level.accepted)
        counts = [f"{accepted[rate]:,} at {rate:.0%}" for rate in SHOWN_RATES]
        console.say(f"{name:<9} {', '.join(counts)} FDR")
    if summary.groups is not None:
        names = ", ".join(group.name for group in summary.groups)
        console.say(f"groups    {names}: q-values and PEPs are within groups")
    console.say(f"files     {', '.join(result.files)} in {out_dir}: {FILTER}")
