"""Steps over whole tables: by whom they are done, who is told, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from .console import Console
from .engine import Engine, Local, Step
from .rows import Rows
from .shards import Job, begin, finish, is_sharded, plan

Result = TypeVar("Result")


class WritingStep(Step[Result], Protocol[Result]):
    """A step that writes a table."""

    def digest(self, rows: Rows) -> str:
        """A digest of all that the table depends on but the values of the rows."""


@dataclass(frozen=True)
class Work:
    """An engine that works, a console that shows how far it is."""

    console: Console
    engine: Engine
    resume: bool = False  # whether shards that are there already are kept

    def gather(self, step: Step[Result], rows: Rows, label: str) -> Result:
        """The merged results of a step over all rows."""
        jobs = [Job(rows)]
        if not isinstance(self.engine, Local):
            jobs = [Job(part) for part in rows.parts()]
        with self.console.rows(label, rows.num_rows) as done:
            return self.engine.reduce(step, jobs, done)

    def write(self, step: WritingStep[Result], rows: Rows, label: str, out: str) -> Result:
        """The same of a step that writes a table, or a directory of shards."""
        sharded = is_sharded(out)
        jobs = plan(rows, out, step.digest(rows) if sharded else "", self.resume)
        with self.console.rows(label, rows.num_rows) as done:
            if sharded:
                begin(out)
            result = self.engine.reduce(step, jobs, done)
            if sharded:
                finish(out, jobs)
            return result
