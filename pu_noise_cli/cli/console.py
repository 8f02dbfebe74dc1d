"""What the user reads on stderr: messages, results, and a progress bar on a terminal only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..errors import StrictError, option, printable
from ..notices import Notice

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

    from ..evidence.thresholds import Thresholds
    from ..pipeline import Posteriors, ScoredRows
    from ..posterior.groups import Groups
    from ..posterior.table import PosteriorRows
    from ..prior.document import Prior
    from ..score.sketch import Sketch
    from ..score.training import Trained


@dataclass(frozen=True)
class Console:
    """Prints messages and progress to stderr."""

    quiet: bool = False
    verbose: bool = False
    strict: bool = False

    def say(self, text: str) -> None:
        if not self.quiet:
            with contextlib.suppress(OSError):  # the results matter more than a full disk here
                click.echo(printable(text), err=True)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.say(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self.say(f"punoise: warning: {notice.message} [{notice.code}]")

    def check_strict(self, notices: Iterable[Notice]) -> None:
        """Stop at any warning, if the user asked for that."""
        if codes := [notice.code for notice in notices] if self.strict else []:
            raise StrictError(f"warnings under {option('strict')}: {', '.join(codes)}")

    def conclude(self, notices: Iterable[Notice]) -> None:
        """Print the warnings of a command, and stop at any if the user asked for that."""
        notices = tuple(notices)
        self.warn(notices)
        self.check_strict(notices)

    @property
    def on_terminal(self) -> bool:
        """Whether somebody looks at more than plain lines."""
        return not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    # ---- Progress

    @contextlib.contextmanager
    def rows(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A function that takes numbers of rows done; on a terminal it shows their rate."""
        if not self.on_terminal:
            yield lambda rows: None
            return
        start, seen = time.monotonic(), 0
        bar: ProgressBar[int]
        with click.progressbar(
            None if total is not None else (row for row in range(0)),  # of unknown length
            length=total,
            label=label,
            file=sys.stderr,
            item_show_func=lambda _: f"{seen / max(time.monotonic() - start, 1e-3):,.0f} rows/s",
        ) as bar:

            def done(rows: int) -> None:
                nonlocal seen
                seen += rows
                bar.update(rows)

            yield done

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[Callable[[float], None]]:
        """A function that takes the fraction done; it draws on a terminal only."""
        if not self.on_terminal:
            yield lambda fraction: None
            return
        with click.progressbar(length=1000, label=label, file=sys.stderr) as bar:
            yield lambda fraction: bar.update(round(fraction * 1000) - bar.pos)

    def took(self, label: str, seconds: float) -> None:
        self.detail(f"punoise: {label} took {seconds:.2f} s")

    # ---- Results

    def print_score(self, scored: ScoredRows) -> None:
        assert scored.trained is not None
        self.print_trained(scored.trained)

    def print_trained(self, trained: Trained) -> None:
        """How the score came about."""
        columns = [column.name for column in trained.model.encoding.columns]
        if trained.learned:
            self.say(f"punoise: a score was learned from {len(columns)} columns")
        else:
            self.say(f"punoise: column {columns[0]!r} is used as the score")

    def print_prior(self, prior: Prior, sketch: Sketch) -> None:
        """The warnings and the answer; on a terminal also what the scores look like."""
        from ..prior.document import summarize_prior

        self.warn(prior.notices)
        for line in summarize_prior(prior):
            self.say(line)
        if self.on_terminal:
            from ..report.content import BLOCKS, PLAIN_BLOCKS, histogram_lines

            encoding = getattr(sys.stderr, "encoding", None) or ""
            blocks = BLOCKS if "utf" in encoding.lower() else PLAIN_BLOCKS
            for line in histogram_lines(sketch, blocks):
                self.say(line)

    def print_thresholds(self, thresholds: Thresholds) -> None:
        """The score at which each level of evidence begins."""
        for threshold in thresholds.levels:
            level = f"{threshold.level.code:<16}"
            if threshold.reached is None:
                self.say(f"{level} not reached")
                continue
            sign = "<=" if threshold.level.against != thresholds.lower_is_positive else ">="
            counts = {
                "unlabeled": threshold.n_unlabeled,
                "labeled": threshold.n_labeled,
                "negative": threshold.n_negatives,
            }
            rows = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
            self.say(f"{level} score {sign} {threshold.reached.score_from:.4g}  {rows} rows")

    def print_calls(
        self, found: Posteriors, written: PosteriorRows, fdr: float | None, graded: bool
    ) -> None:
        """How many unlabeled rows are called and, if wanted, have which evidence."""
        if not written.unlabeled.any():
            return
        rows, columns = written.unlabeled, found.columns
        if fdr is not None:
            by_group = found.by_group is not None
            called = written.reached["call"] if by_group else rows[columns["call"]].sum()
            self.say(f"calls  {called} unlabeled rows have an fdr of at most {fdr}")
        if found.thresholds is None or not (graded or found.by_group is not None):
            return
        for level in sorted(found.thresholds.graded, key=lambda level: -level.lr):
            if found.by_group is not None:
                self.say(f"{written.reached[level.name]:>9}  {level.name}")
            else:
                reached = rows[columns["evidence"] == level.name].sum()
                self.say(f"{reached:>9}  {level.name} (likelihood ratio {level.lr:.4g})")

    def print_groups(self, groups: Groups) -> None:
        """How many groups there are, and the range of their alpha."""
        alpha = groups.shares.alpha[1:] if len(groups.names) > 1 else groups.shares.alpha
        self.say(
            f"groups {len(groups.names) - 1} by {groups.by}, with alpha from {alpha.min():.4f} to "
            f"{alpha.max():.4f}; of all unlabeled rows {groups.alpha:.4f}"
        )
