"""A result: what an analysis found, with its rows, which can be read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .answer import Answer
from .audit.design import audit_command
from .notices import Notice
from .pipeline import Posteriors, ScoredRows, answer, sample_report, summarize
from .posterior.candidates import ListedRows
from .posterior.groups import Groups
from .posterior.summary import Summary
from .prior.document import Prior
from .report.page import Page, Section
from .score.contributions import Contribution
from .tables.results import InputFile, Provenance
from .tables.writing import MemoryTable


@dataclass(frozen=True)
class Tables:
    """Where tables of rows are written: files, directories of shards, or memory."""

    scores: str | MemoryTable
    posterior: str | MemoryTable


@dataclass(frozen=True, eq=False)
class Result:
    """What an analysis found: an answer, if the score was trained in it, and its rows."""

    scored: ScoredRows  # with SCORES
    prior: Prior
    posteriors: Posteriors
    listed: ListedRows
    provenance: Provenance | None
    contributions: Sequence[Contribution] = ()
    sections: Sequence[Section] = ()  # of the report, from a domain
    sources: Sequence[InputFile] = ()  # that it was read from, if it was not just made

    @cached_property
    def answer(self) -> Answer:
        """What new rows need."""
        return answer(self.scored, self.prior, self.posteriors)

    @cached_property
    def summary(self) -> Summary:
        """The numbers that people quote."""
        return summarize(self.prior, self.posteriors)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Warnings in the order of the steps, each once."""
        return self.summary.notices

    @property
    def groups(self) -> Groups | None:
        """Alpha by group."""
        by_group = self.posteriors.group_posteriors
        return None if by_group is None else by_group.groups

    def page(self, scores: str = "scores.parquet", prior: str = "prior.json") -> Page:
        """The report; the files are named in the command that draws rows to verify."""
        return sample_report(
            self.summary,
            self.posteriors,
            self.listed,
            self.provenance,
            self.contributions,
            sections=self.sections,
            sources=self.sources,
            command=audit_command(scores, prior),
        )
