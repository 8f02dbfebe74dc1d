"""Rows to verify by hand: `audit`."""

from __future__ import annotations

from ..errors import UsageError
from ..settings import AuditSettings
from .options import command, engine_for
from .process import Console


@command("audit", AuditSettings)
def audit(settings: AuditSettings, console: Console) -> None:
    """Choose rows to verify by hand, to narrow the interval of alpha.

    Fill in the column 'verdict' with yes or no. Leave it empty if you are unsure, and keep all
    rows. Then run 'estimate-prior --verdicts': the interval assumes only that the verdicts are
    correct. With --top, fewer verdicts are enough: they show how many of the best-scoring rows are
    positive, and alpha follows from that and from the scores.

    \b
    punoise audit --scores scores.tsv --prior prior.json --top --rows 20 --out audit.tsv
    punoise audit --scores scores.tsv --prior prior.json --rows 100 --out audit.tsv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out verified.json
    """
    from ..recipes import steps

    inputs = settings.inputs
    by_set = (inputs.labeled, inputs.negatives, inputs.unlabeled)
    if any(by_set) and (inputs.labeled is None or inputs.unlabeled is None):
        raise UsageError("give both --labeled and --unlabeled, or --table")
    with engine_for(settings.process, console) as engine:
        drawn = steps.audit(settings, engine)
    wanted = settings.rows, settings.labeled_rows
    fewer = (
        f" (there are no more than that; asked for {sum(wanted)})"
        if drawn.rows < sum(wanted)
        else ""
    )
    console.say(
        f"rows   {drawn.rows} to verify in {settings.out}{fewer}: fill in the column verdict"
    )
    for name, rows, design in zip(("alpha", "beta"), wanted, drawn.designs, strict=True):
        if rows:
            widths = design.expected_widths(drawn.calibration, drawn.prior).items()
            expected = ", ".join(f"{100 * width:.1f} after {n}" for n, width in widths)
            interval = getattr(drawn.prior, f"{name}_ci")
            now = f" (now {100 * (interval[1] - interval[0]):.1f})" if interval else ""
            where = " at the top" if design.top else ""
            console.say(
                f"width  of the interval of {name} in percentage points, expected: {expected} "
                f"verdicts{where}{now}"
            )
    console.conclude(drawn.calibration.notices)
