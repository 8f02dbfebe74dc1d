"""`matches`: peptide-spectrum matches of one or many runs to PSMs, peptides and decoys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..recipes.matches import MatchResult

SHOWN_RATES = (0.01, 0.05)  # of false discoveries
FILTER = "filter on the column q-value; run_q-value is for a run that is reported alone"


@command("matches")
def matches(options: Options, console: Console) -> None:
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
    from ..proteomics.columns import MatchColumns
    from ..recipes.matches import MatchSettings, run_matches
    from ..score.training import ScoreSettings

    settings = options.pick(
        MatchSettings,
        columns=options.pick(MatchColumns),
        scoring=options.pick(ScoreSettings),
        options=options.recorded(affects_results=True),
        execution=options.recorded(affects_results=False),
    )
    with options.engine(console) as engine:
        result = run_matches(settings, engine, options.out_dir)
    print_matches(result, options.out_dir, console)
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
