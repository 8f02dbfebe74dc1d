"""The options of a command's settings as click's parameters, and commands that take settings."""

from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import option
from ..options import Definition, build, check_together, definitions, passed
from ..settings import CommandSettings, Process
from .help import HEADINGS, Command
from .process import Console

if TYPE_CHECKING:
    from ..scale.engine import Engine

Settings = TypeVar("Settings", bound=CommandSettings)


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


# ---- Parameters


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


def _parameter(definition: Definition) -> click.Parameter:
    name, stated, default = definition.name, definition.option, definition.default
    settings = _value_type(definition) | {"required": default is MISSING}
    if stated.metavar is not None:
        settings["metavar"] = stated.metavar
    if stated.is_argument:
        return Argument([name], help=stated.help, **settings)
    if callable(default):  # the help says more than its value
        settings |= {"default": default, "show_default": False}
    elif default not in (None, (), MISSING) and definition.kind != "flag":
        settings |= {"default": default, "show_default": True}
    flag = option(name)
    flags = [f"{flag}/--no-{flag.removeprefix('--')}" if definition.kind == "switch" else flag]
    flags += [] if stated.also is None else [stated.also]
    heading = stated.heading or _heading(definition)
    return Parameter(
        [*flags, name], heading=heading, help=stated.help, envvar=stated.envvar, **settings
    )


def _value_type(definition: Definition) -> dict[str, Any]:
    """Click's settings for the values of an option."""
    kind, stated = definition.kind, definition.option
    if kind == "choice":
        choices = definition.choices
        known = RegistryChoice(choices) if isinstance(choices, str) else click.Choice(choices)
        return {"type": known}
    if stated.file is not None:
        several = {"nargs": -1} if stated.is_argument else {"multiple": True}
        return {"type": FileName()} | (several if kind == "names" else {})
    if _has_lists(definition):
        return {"type": NameList(), "multiple": True, "metavar": "A,B,..."}
    if kind == "names":
        return {"multiple": True}
    (low, high), is_open = stated.range or (None, None), stated.ends_excluded
    number = Finite(low, high, min_open=is_open, max_open=is_open)
    kinds: dict[str, dict[str, Any]] = {
        "text": {},
        "flag": {"is_flag": True},
        "switch": {"default": None},  # on, off or neither
        "integer": {"type": WholeNumber(low, high), "metavar": "N"},
        "number": {"type": number},
        "range": {"type": number, "nargs": 2, "metavar": "LOW HIGH"},
    }
    return kinds[kind]


def _heading(definition: Definition) -> str:
    """The heading of an option that states none."""
    if definition.option.file is not None:
        return "Input" if definition.option.file == "read" else "Output"
    return "Columns" if definition.kind == "names" else HEADINGS[-1]


# ---- Commands


def command(
    name: str, kind: type[Settings]
) -> Callable[[Callable[[Settings, Console], None]], click.Command]:
    """Make a command of a function that takes settings, whose options are those of the command."""

    def decorate(function: Callable[[Settings, Console], None]) -> click.Command:
        options = definitions(kind)

        def call(**values: Any) -> None:
            given = passed(options, values)
            check_together(options, given)
            settings = _settings(kind, values, given)
            process = settings.process
            _load(process.threads)
            skipped = values.get("missing_score") == "skip"
            asked_for = frozenset(["missing-scores"] if skipped else [])
            console = Console(process.quiet, process.verbose, process.strict, asked_for)
            console.relay_messages()
            _check_files(options, given)
            function(settings, console)
            for file in _files(options, given, "written"):
                if file != "-":
                    console.say(f"wrote  {file}")

        parameters = [_parameter(definition) for definition in options.values()]
        short = getattr(kind, "SHORT", ())
        return Command(name, callback=call, params=parameters, help=function.__doc__, short=short)

    return decorate


def _settings(
    kind: type[Settings], values: Mapping[str, Any], given: Mapping[str, Any]
) -> Settings:
    """The settings with values of the command line, and with those given for the provenance."""
    options = definitions(kind)
    flat = {
        name: tuple(itertools.chain(*value)) if _has_lists(options[name]) else value
        for name, value in values.items()
    }
    by_effect: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    for name, value in given.items():
        by_effect[options[name].option.affects_results][name] = value
    return build(kind, {**flat, "options": by_effect[True], "execution": by_effect[False]})


def _has_lists(definition: Definition) -> bool:
    """Whether an option has several lists of names, A,B,... each."""
    stated = definition.option
    return definition.kind == "names" and stated.file is None and not stated.is_repeated


def engine_for(process: Process, console: Console) -> AbstractContextManager[Engine]:
    """Who does the work: this process, or the Dask cluster that the user names."""
    from ..scale.engine import open_engine

    return open_engine(process.dask, process.threads, console)


def _files(
    options: Mapping[str, Definition], given: Mapping[str, Any], use: Literal["read", "written"]
) -> list[str]:
    """The files that options name, to be read or written."""
    named = [v for n, v in given.items() if options[n].option.file == use]
    return [file for value in named for file in ((value,) if isinstance(value, str) else value)]


def _check_files(options: Mapping[str, Definition], given: Mapping[str, Any]) -> None:
    """Stop where an output is an input or another output, or inputs may be of two commands."""
    from ..tables.results import check_complete
    from ..tables.writing import check_distinct

    inputs = _files(options, given, "read")
    check_distinct(_files(options, given, "written"), inputs)
    for name in inputs:
        check_complete(name)


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
