"""Options as data (options.toml): how they become click's parameters, and what the user passed."""

from __future__ import annotations

import contextlib
import csv
import functools
import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import option
from ..options import Definition, Limits, check_together, definitions, limits, options_document
from ..options import passed as passed_options
from .help import HEADINGS, Command
from .process import Console

if TYPE_CHECKING:
    from ..scale.engine import Engine

KIND_HEADINGS = {"file": "Input", "files": "Input", "output": "Output", "names": "Columns"}
Settings = TypeVar("Settings")


# ---- Kinds of values


class FileName(click.ParamType):  # type: ignore[type-arg]
    """A file name, which the shell can complete."""

    name = "text"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(incomplete, type="file")]


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; the option may also be repeated."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            names = next(csv.reader([value], skipinitialspace=True))  # '"a,b",c' are two names
        except csv.Error as error:
            self.fail(f"{value!r} is not a list of names ({error})", param, ctx)
        return tuple(name.strip() for name in names if name.strip())


class Finite(click.FloatRange):
    """A finite number in a range."""

    name = "number"

    def _describe_range(self) -> str:
        return "any" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter as error:
            self.fail(error.message + self._as_fraction(value), param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number

    def _as_fraction(self, value: Any) -> str:
        """The fraction that is meant, if the value seems to be a percentage."""
        with contextlib.suppress(ValueError):
            if (self.min, self.max) == (0, 1) and 1 < float(value) <= 100:
                return f" {value}% is {float(value) / 100:.12g}."
        return ""


class WholeNumber(click.IntRange):
    """A whole number; its range is not worth the space in the help."""

    name = "n"

    def _describe_range(self) -> str:
        return ""


class RegistryChoice(click.Choice):  # type: ignore[type-arg]
    """A choice among registered names, loaded when first needed because that imports numpy."""

    def __init__(self, registry: str) -> None:
        self.registry, self.case_sensitive = registry, True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        _load()
        from .. import pipeline

        return tuple(pipeline.registered(self.registry))


def _value_type(entry: Definition) -> dict[str, Any]:
    """Click's settings for the values of an option."""
    kind, range_ = entry.get("kind", "text"), limits(entry) or Limits(None, None)
    low, high, is_open = range_
    if "choices" in entry:
        choices = entry["choices"]
        is_list = isinstance(choices, list)
        return {"type": click.Choice(choices) if is_list else RegistryChoice(choices)}
    kinds: dict[str, dict[str, Any]] = {
        "text": {},
        "texts": {"multiple": True},
        "flag": {"is_flag": True},
        "switch": {"default": None},  # on, off or neither
        "file": {"type": FileName()},
        "files": {"type": FileName(), "multiple": True},
        "output": {"type": FileName()},
        "argument": {"type": FileName(), "nargs": -1},
        "names": {"type": NameList(), "multiple": True, "metavar": "A,B,..."},
        "range": {"type": Finite(low, high), "nargs": 2, "metavar": "LOW HIGH"},
        "numbers": {"type": Finite(low, high), "multiple": True},
        "integer": {"type": WholeNumber(entry.get("min"), entry.get("max")), "metavar": "N"},
    }
    for name in ("fraction", "open-fraction", "number"):
        kinds[name] = {"type": Finite(low, high, min_open=is_open, max_open=is_open)}
    return kinds[kind]


class Parameter(click.Option):
    """An option that knows under which heading the help lists it."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


class Argument(click.Argument):
    """A positional argument that the help explains."""

    heading = "Arguments"

    def __init__(self, *args: Any, help: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.explanation = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self.explanation


def cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _parameter(name: str, entry: Definition) -> click.Parameter:
    settings = _value_type(entry)
    settings |= {key: entry[key] for key in ("metavar", "required", "envvar") if key in entry}
    if entry.get("kind") == "argument":
        return Argument([name], help=entry["help"], **settings)
    if "default" in entry:
        computed = entry["default"] == "cores"
        settings |= {
            "default": cores if computed else entry["default"],
            "show_default": not computed,
        }
    flags = entry.get("flag", option(name)).split()
    if "/" in flags[0]:  # neither yes nor no
        settings["default"] = None
    kind = entry.get("kind", "text")
    heading = entry.get("heading") or KIND_HEADINGS.get(kind, HEADINGS[-1])
    return Parameter([*flags, name], heading=heading, help=entry.get("help", ""), **settings)


# ---- What the user passed


class Options:
    """The values of a command's options, as attributes; names in lists are flattened."""

    def __init__(self, command: str, values: dict[str, Any]) -> None:
        self.definitions, self.values = definitions(command), values

    def __getattr__(self, name: str) -> Any:
        value = self.values[name]
        if self.definitions[name].get("kind") == "names":
            return tuple(item for names in value for item in names)
        return value

    def pick(self, settings: type[Settings], **more: Any) -> Settings:
        """Settings whose fields are set by the options of the same names that the user passed."""
        names = [field.name for field in fields(settings)]  # type: ignore[arg-type]
        passed = {name: getattr(self, name) for name in names if name in self._passed()}
        return settings(**{**passed, **more})

    def _passed(self) -> dict[str, Any]:
        """The options that have a value; a flag has one only if it is set."""

        return passed_options(self.definitions, self.values)

    def recorded(self, affects_results: bool) -> dict[str, Any]:
        """The options passed that results depend on, or the others, for the provenance."""
        return {
            name: value
            for name, value in self._passed().items()
            if self.definitions[name].get("affects_results", True) is affects_results
        }

    def files(self, *kinds: str) -> list[str]:
        """The files that options of some kinds name."""
        named = [v for n, v in self._passed().items() if self.definitions[n].get("kind") in kinds]
        return [file for value in named for file in ((value,) if isinstance(value, str) else value)]

    @property
    def data_out(self) -> str | None:
        """The target of a document: by default standard output, unless that is a terminal."""
        out: str | None = self.values["out"]
        return "-" if out is None and not sys.stdout.isatty() else out

    def check_data_out(self) -> None:
        from ..tables.writing import check_target

        if self.data_out is not None:
            check_target(self.data_out)

    def write_data(self, document: dict[str, Any]) -> None:
        from ..tables.writing import write_json

        if self.data_out is not None:
            write_json(self.data_out, document)

    def engine(self, console: Console) -> AbstractContextManager[Engine]:
        """Who does the work: this process, or the Dask cluster that the user names."""
        from ..scale.engine import open_engine

        return open_engine(self.values.get("dask"), self.threads, console)

    def check(self) -> None:
        """Stop where an option lacks another one that it needs, or meets one that it excludes."""
        check_together(self.definitions, self._passed())

    def check_files(self) -> None:
        """Stop where an output is an input or another output, or inputs may be of two commands."""
        from ..tables.results import check_complete
        from ..tables.writing import check_distinct

        inputs = self.files("file", "files", "argument")
        check_distinct(self.files("output"), inputs)
        for name in inputs:
            check_complete(name)


# ---- Commands


def command(name: str) -> Callable[[Callable[[Options, Console], None]], click.Command]:
    """Make a command, with its options of options.toml, of a function that takes their values."""

    def decorate(function: Callable[[Options, Console], None]) -> click.Command:
        def call(**values: Any) -> None:
            options = Options(name, values)
            options.check()
            _load(options.threads)
            strict = values.get("strict", False)
            skipped = values.get("missing_score") == "skip"
            asked_for = frozenset(["missing-scores"] if skipped else [])
            console = Console(options.quiet, options.verbose, strict, asked_for)
            console.relay_messages()
            options.check_files()
            function(options, console)
            for file in options.files("output"):
                if file != "-":
                    console.say(f"wrote  {file}")

        parameters = [_parameter(n, entry) for n, entry in definitions(name).items()]
        short = options_document()["short"].get(name, "").split()
        return Command(name, callback=call, params=parameters, help=function.__doc__, short=short)

    return decorate


class _NoPandas:
    """Hides pandas from pyarrow, which would import it for 0.3 s and use nothing of it here."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def _load(threads: int | None = None) -> None:
    """Load the domains, and pyarrow, which looks for pandas once; set its threads if known."""
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow as pa

        pa.array([""])
    finally:
        sys.meta_path.remove(_NoPandas)
    if threads is not None:
        pa.set_cpu_count(threads)
