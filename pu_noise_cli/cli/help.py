"""What -h, --help and `punoise help` print: the options people use, or all of them by topic."""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from collections.abc import Collection
from typing import Any

import click
from click.formatting import wrap_text

from ..errors import UsageError
from ..notices import kinds

HEADINGS = (
    *(
        "Arguments",
        "Input",
        "Output",
        "Columns",
        "Score",
        "Estimation",
        "Posterior",
        "Audit",
        "Simulation",
    ),
    *("Large tables", "General"),
)
COMMANDS = {  # in the order of use, with the modules that hold them
    "Start here": {"run": "run", "report": "report", "audit": "audit", "simulate": "simulate"},
    "Proteomics": {"matches": "matches"},
    "Variants": {"calibrate": "variants", "apply": "variants"},
    "Step by step": {
        "transform": "score",
        "estimate-prior": "prior",
        "posterior": "posterior",
        "summarize": "report",
    },
    "Large tables and new rows": {"train": "score", "score": "score"},
    "Other": {"help": "help"},
}


class Command(click.Command):
    """A command with two helps: --help lists all options by topic, -h the ones people use.

    Options can be given once each, except those that take several values.
    """

    def __init__(self, *args: Any, short: Collection[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.short = short  # names of the options that -h lists; none means all
        self.params.append(
            click.Option(
                ["-h"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=self._show_short_help,
                help="Show the most used options and exit.",
            )
        )

    def _show_short_help(self, ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(self.short_help_page(ctx))
            ctx.exit()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; click would take the last of several values."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if not args:  # as click does for groups, but with the short page
            click.echo(self.short_help_page(ctx), err=True)
            ctx.exit(2)
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for parameter, count in Counter(order).items():
            if count > 1 and not _may_repeat(parameter):
                raise UsageError(f"{parameter.opts[-1]} is given {count} times; give it once")
        return super().parse_args(ctx, args)

    def short_help_page(self, ctx: click.Context) -> str:
        """The purpose, an example, and the options that people use."""
        purpose, example = self._purpose_and_example()
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(purpose)
            if example:
                formatter.write_paragraph()
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        shown = [p for p in self.params if not self.short or p.name in self.short]
        self._write_options(ctx, formatter, shown)
        formatter.write_paragraph()
        hidden = len(self.params) - len(shown)
        more = f" and {hidden} more options" if self.short else ""
        formatter.write_text(f"'{ctx.command_path} --help' shows details{more}.")
        return formatter.getvalue().rstrip("\n")

    def _purpose_and_example(self) -> tuple[str, str]:
        """The first sentence of the help, and its first example."""
        text, _, examples = (self.help or "").partition("\b\n")
        lines = [line.strip() for line in examples.splitlines()]
        example = ""
        for line in lines:  # an example may go on in the next line
            example += line.removesuffix("\\")
            if not line.endswith("\\"):
                break
        return " ".join(text.split("\n\n")[0].split()), example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._write_options(ctx, formatter, self.get_params(ctx))

    @staticmethod
    def _write_options(
        ctx: click.Context, formatter: click.HelpFormatter, parameters: Collection[click.Parameter]
    ) -> None:
        """List options under headings, required ones first."""
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(parameters, key=lambda p: not p.required):
            if (record := parameter.get_help_record(ctx)) is not None:
                records.setdefault(getattr(parameter, "heading", HEADINGS[-1]), []).append(record)
        for heading in HEADINGS:
            if heading in records:
                with formatter.section(heading):
                    formatter.write_dl(records[heading])


def _may_repeat(parameter: click.Parameter) -> bool:
    """Whether a parameter takes several values, or is a flag that says the same again."""
    if parameter.nargs == -1 or getattr(parameter, "multiple", False):
        return True
    return getattr(parameter, "is_flag", False) and not parameter.secondary_opts


class Commands(click.Group):
    """Commands by topic, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for topic in COMMANDS.values() for name in topic]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        modules = {name: module for topic in COMMANDS.values() for name, module in topic.items()}
        if name not in modules:
            return None
        module = importlib.import_module(f"{__package__}.{modules[name]}")
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for topic, names in COMMANDS.items():
            with formatter.section(topic):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(100))
                        for name, command in commands
                        if command
                    ]
                )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(
            "'punoise COMMAND -h' shows the options people use, 'punoise help COMMAND' all of "
            "them, and 'punoise help CODE' what a warning means."
        )
        formatter.write_paragraph()
        formatter.write_text(
            "Guides and tutorials are in docs/ of the source; 'make docs' builds them as a site."
        )


@click.command("help")
@click.argument("topic", required=False, metavar="[COMMAND|CODE|FILE]")
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:
    """Show all options of a command, explain a warning, or print the JSON Schema of a file.

    \b
    punoise help run
    punoise help wide-interval
    punoise help prior.json
    """
    parent = ctx.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    if topic is None:
        click.echo(parent.get_help())
        return
    command, warning = parent.command.get_command(parent, topic), kinds().get(topic)
    if command is not None:
        with click.Context(command, info_name=topic, parent=parent) as own:
            click.echo(command.get_help(own))
    elif topic == "prior.json":
        from ..prior.document import json_schema
        from ..tables.writing import write_json

        write_json("-", json_schema())
    elif warning is not None:
        click.echo(wrap_text(warning.meaning))
        click.echo(wrap_text(f"What to do: {warning.remedy}"))
    else:
        known = [*parent.command.list_commands(parent), *kinds(), "prior.json"]
        close = difflib.get_close_matches(topic, known)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        what = "neither a command, the code of a warning nor a file with a schema"
        raise click.UsageError(f"'{topic}' is {what}.{hint}")
