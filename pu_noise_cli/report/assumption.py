"""What is certain, what rests on an assumption, and what α's interval becomes under others."""

from __future__ import annotations

from collections.abc import Callable

from ..estimators.assumptions import purity_asked
from ..prior import LITTLE, Prior, Wording, lower_end
from .chart import (
    MIDDLE,
    Chart,
    Palette,
    Row,
    Spec,
    as_rows,
    channel,
    nearest_to,
    shown_on_hover,
    tooltips,
    zooming,
)
from .content import ReportContent
from .text import NBSP, percent, percent_range, rounded

TITLE = "What α's interval becomes if more is assumed"
FEWEST, MOST = 3, 100  # purities that make a curve, and that are drawn of a document's
COLUMNS = {"purity": "assumed: at least", "low": "α from", "high": "to"}


def _percent_of(share: float, digits: int) -> str:
    """A share of so many decimals in per cent, where more than one decimal says too much."""
    return f"{100 * share:.{min(max(digits - 2, 0), 1)}f}{NBSP}%"


REPORT = Wording("α", "β", _percent_of)


def certainty_list(prior: Prior) -> str:
    """What is certain, what is likely and what would narrow it, a line each."""
    said = prior.certainty(REPORT)
    lines = {
        "Certain, at 95&nbsp;% confidence": said.get("sure"),
        "Likely": _likely(prior, said.get("given")),
        "To narrow it": said.get("next"),
    }
    items = "".join(
        f"<li><strong>{name}:</strong> {text.replace('--purity', '<code>--purity</code>')}.</li>\n"
        for name, text in lines.items()
        if text is not None
    )
    return f'<ul class="certainty">{items}</ul>' if items else ""


def _likely(prior: Prior, given: str | None) -> str | None:
    """What the intervals rest on; nothing of intervals that leave everything open."""
    answer = prior.answer
    if answer is None or answer.alpha_ci is None or not answer.draws:
        return None
    if given is not None:
        return f"the 95{NBSP}% intervals above, given {given}"
    if answer.assumed is None:
        return f"the 95{NBSP}% intervals above, which reflect sampling error only"
    end = "lowest-scoring" if prior.labeled_negatives else "best-scoring"
    return f"the 95{NBSP}% intervals above, which assume nothing of the {end} rows"


# The chart


def sensitivity(content: ReportContent) -> list[Chart]:
    """The ends of α's interval by the purity assumed, where there are enough of them to draw."""
    answer, prior = content.answer, content.prior
    if answer.assumed is None or not answer.draws or not content.calibration.shares.of_these_rows:
        return []
    # where scores separate little, less is assumed than is stated
    sketch = content.sketch.mirrored() if prior.labeled_negatives else content.sketch
    by_purity = {
        purity_asked(stated, sketch): (lower_end((low, high)), high)
        for stated, low, high in answer.assumed["sensitivity"]
    }
    if len(by_purity) < FEWEST:
        return []
    purity = answer.assumed["purity"]
    used = 0.0 if prior.contradicted or purity < LITTLE else purity
    if used and answer.alpha_ci is not None:
        by_purity[used] = lower_end(answer.alpha_ci), answer.alpha_ci[1]
    purities = sorted(by_purity)
    rows = as_rows(
        purity=purities,
        low=[by_purity[purity][0] for purity in purities],
        high=[by_purity[purity][1] for purity in purities],
    )[:: -(-len(purities) // MOST)]
    end = "lowest-scoring" if prior.labeled_negatives else "best-scoring"
    alt = (
        f"The 95 % interval of α by the least share of {prior.labeled_class}s assumed among the "
        f"{end} unlabeled rows: {_in_words(rows[0])}; {_in_words(rows[-1])}."
    )
    if used:
        alt += f" Assumed here: {percent(used)}."
    axis = f"least share of {prior.labeled_class}s assumed at the "
    axis += "bottom" if prior.labeled_negatives else "top"
    return [Chart("assumption", TITLE, alt, rows, COLUMNS, _draw(rounded(used), axis), MIDDLE)]


def _in_words(row: Row) -> str:
    return f"{percent_range((row['low'], row['high']))} at {percent(row['purity'])}"


def sensitivity_text(content: ReportContent) -> str:
    """The chart in two sentences."""
    assert content.answer.assumed is not None
    purity = content.answer.assumed["purity"]
    least = f"at least {_percent_of(purity, 2)}"
    if content.prior.contradicted:
        here = f"That {least} of them are contradicts the scores and was not used"
    elif purity >= LITTLE:
        here = f"This result assumes {least} (the dashed line)"
    else:
        here = "This result assumes nothing of them (the left end)"
    best, then = "best", "the higher the least share α can have"
    if content.prior.labeled_negatives:
        best, then = "lowest-scoring", "the lower the largest share α can have"
    return (
        f"<p>The more of the unlabeled rows that score like your {best} labeled ones you know to "
        f"be {content.prior.labeled_class}, {then}. {here}; if you know better, for example "
        "because you followed up some of these rows, state it with <code>--purity</code>.</p>"
    )


def _draw(used: float, axis: str) -> Callable[[Palette], Spec]:
    """A band over the purities, with a line at the one that was used unless it is none."""
    x = channel("purity", axis)
    x["axis"] = {"format": "~%", "grid": False, "tickCount": 5}
    y: Spec = {"axis": {"format": "~%", "tickCount": 5}, "scale": {"zero": True}}
    names = {"high": "upper end", "low": "lower end"}
    here, title = "assumed here", "95 % interval of α"

    def draw(palette: Palette) -> Spec:
        colors = dict(zip(names.values(), (palette.unlabeled, palette.positive), strict=True))
        if used:
            colors[here] = palette.labeled
        scale = {"domain": list(colors), "range": list(colors.values())}
        band = {
            "mark": {"type": "area", "color": palette.positive, "opacity": 0.22},
            "encoding": {"x": x, "y": channel("low", title, **y), "y2": {"field": "high"}},
        }
        lines: list[Spec] = [
            {
                "params": [zooming("x")] if name == "low" else [],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {
                    "x": x,
                    "y": channel(name, title, **y),
                    "color": {"datum": label, "scale": scale},
                },
            }
            for name, label in names.items()
        ]
        mark = {
            "data": {"values": [{"purity": used}]},
            "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [6, 4]},
            "encoding": {"x": x, "color": {"datum": here, "scale": scale}},
        }
        pointer = {
            "params": [nearest_to("purity")],
            "mark": {"type": "rule", "strokeWidth": 1},
            "encoding": {
                "x": x,
                "color": {"value": palette.ink},
                "opacity": shown_on_hover(0.6),
                "tooltip": tooltips(COLUMNS, dict.fromkeys(COLUMNS, ".1%")),
            },
        }
        return {"layer": [band, *lines, *([mark] if used else []), pointer]}

    return draw
