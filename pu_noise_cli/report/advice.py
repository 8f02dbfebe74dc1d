"""What each warning means for a reader, and what to do about it, by its code."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    meaning: str
    remedy: str


ADVICE = {
    "few-rows": Advice(
        "One of the two tables has fewer than 100 rows, so chance alone moves the estimates a lot.",
        "Rely on the intervals, not on the estimates; add rows if you can.",
    ),
    "indistinguishable": Advice(
        "Labeled and unlabeled rows score alike. Then any share of positives fits the data, and "
        "alpha cannot be told.",
        "Do not use alpha. Add features that tell positives from negatives, or check that the "
        "labeled table holds what it should.",
    ),
    "reversed-scores": Advice(
        "Labeled rows score lower than unlabeled ones: the score seems to run the other way.",
        "If low scores mean positive, run again with --lower-is-positive.",
    ),
    "separable": Advice(
        "The score tells labeled from unlabeled rows almost without error. Either hardly any "
        "unlabeled row is positive, or a column gives away which table a row came from.",
        "Look for a column that was filled in only for labeled rows (a date, a source, a count of "
        "publications), leave it out with --drop-columns, and run again.",
    ),
    "tied-scores": Advice(
        "Most rows share their score with many others, so the score can rank them only coarsely.",
        "Use a finer score, for example one that is not rounded or cut into classes.",
    ),
    "alpha-near-zero": Advice(
        "Hardly any unlabeled row seems to be positive.",
        "Read the interval: its upper end is what the data still allow.",
    ),
    "alpha-near-one": Advice(
        "Nearly all unlabeled rows seem to be positive.",
        "Read the interval: its lower end is what the data still allow.",
    ),
    "beta-not-above-alpha": Advice(
        "The labeled rows are no richer in positives than the unlabeled ones. The method rests on "
        "their being richer.",
        "Check the labels, and that the two tables were not exchanged.",
    ),
    "refuted-by-auc": Advice(
        "The score separates the two tables better than it could if alpha and beta were right.",
        "Compare the methods with --method all; if you gave --beta yourself, check it.",
    ),
    "estimate-at-interval-edge": Advice(
        "The estimate lies at the very end of its interval.",
        "Quote the interval rather than the estimate.",
    ),
    "not-converged": Advice(
        "A method that improves its estimate step by step was stopped before it had settled.",
        "Use another method, such as auto.",
    ),
    "posterior-mean-off": Advice(
        "The posteriors of the unlabeled rows do not average to alpha: alpha and the scores "
        "disagree.",
        "Compare the methods with --method all. For a population with another share of positives, "
        "use --target-alpha instead of another alpha.",
    ),
    "prior-of-other-rows": Advice(
        "Alpha and beta were estimated from other rows than those shown here.",
        "Estimate them from these scores, unless you know that the shares are the same.",
    ),
    "leaking-column": Advice(
        "One column alone tells the two tables apart.",
        "If it says how a row came to be labeled, leave it out with --drop-columns; if it is real "
        "biology, keep it.",
    ),
    "identifier-like-column": Advice(
        "A text column is different in nearly every row, like a name. A score can learn nothing "
        "from it.",
        "Name it with --id-column, or leave it out with --drop-columns.",
    ),
    "bad-input": Advice(
        "The input could not be used, so there is no estimate.",
        "The message names the file and the place; correct it and run again.",
    ),
    "estimation-failed": Advice(
        "The input was fine but gave no estimate.",
        "The message says why; try another --method or more rows.",
    ),
}
UNKNOWN = Advice("A warning of another version of punoise.", "See that version's README.")


def advice(code: str) -> Advice:
    """The advice on a code; documents of other versions may bring codes unknown here."""
    return ADVICE.get(code, UNKNOWN)
