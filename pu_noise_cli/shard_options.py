"""Options for tables of many shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import UsageError
from .parameters import Common, flag, option

if TYPE_CHECKING:
    from .rows import Rows


@dataclass(frozen=True, kw_only=True)
class DaskOption(Common):
    """Commands that can let a cluster read the tables."""

    dask: str | None = option(
        "--dask",
        "Large tables",
        "Work on the Dask cluster whose scheduler has this address or wrote this file; it "
        "reads and writes Parquet shards.",
        metavar="ADDRESS",
        settles=False,
    )


@dataclass(frozen=True, kw_only=True)
class ShardsOptions(DaskOption):
    """Commands that can write a directory of shards."""

    resume: bool = flag(
        "--resume",
        "Large tables",
        "Keep the shards that an interrupted run of the same command has finished.",
        settles=False,
    )

    def check_table_out(self, out: str, rows: Rows) -> None:
        """Stop, before any work is done, where `out` cannot be a table or a directory of shards."""
        from .outputs import check_table_target
        from .shards import check_sharded_target, is_sharded

        if is_sharded(out):
            check_sharded_target(out, rows)
            return
        if unused := self.given("dask", "resume"):
            raise UsageError(f"{unused[0]} goes with shards: let the name after --out end in '/'")
        check_table_target(out)
