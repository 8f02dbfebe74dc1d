"""Writes what the program says about itself into docs/reference/, and its man pages.

python docs/make_reference.py            update the pages
python docs/make_reference.py --check    exit with 1 if one is out of date
python docs/make_reference.py --man DIR  write punoise.1 and a page for each command

A page keeps its own text; what lies between <!-- name --> and <!-- end --> is generated.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from pu_noise_cli import __version__
from pu_noise_cli.cli.help import COMMANDS, HEADINGS
from pu_noise_cli.cli.process import cli
from pu_noise_cli.notices import kinds
from pu_noise_cli.prior.document import reference_rows

FOLDER = Path(__file__).parent / "reference"


def _context() -> click.Context:
    return click.Context(cli, info_name="punoise", **cli.context_settings)


def loaded() -> dict[str, click.Command]:
    """The commands by name, in the order of use."""
    context = _context()
    found = ((name, cli.get_command(context, name)) for name in cli.list_commands(context))
    return {name: command for name, command in found if command is not None}


def records(name: str, command: click.Command) -> dict[str, list[tuple[str, str]]]:
    """The options of a command under their headings: how they are written, what they mean."""
    context = click.Context(command, info_name=name, parent=_context())
    found: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        heading = getattr(parameter, "heading", HEADINGS[-1])
        if record is None and isinstance(parameter, click.Argument):  # of `help`
            record, heading = (parameter.make_metavar(context), "a command or a code"), "Arguments"
        if record is not None:
            found.setdefault(heading, []).append(record)
    return {heading: found[heading] for heading in HEADINGS if heading in found}


def described(command: click.Command) -> tuple[str, str]:
    """The text of a command's help, and its examples."""
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    return text.strip(), examples.strip()


# ---- Markdown


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").split())


def commands() -> str:
    found = loaded()
    rows = [
        (topic, f"[`{name}`](#punoise-{name})", _cell(found[name].get_short_help_str(200)))
        for topic, names in COMMANDS.items()
        for name in names
    ]
    return table(("topic", "command", "purpose"), rows)


def options() -> str:
    parts = []
    for name, command in loaded().items():
        text, examples = described(command)
        parts.append(f"## punoise {name}\n\n{text}")
        parts.append(f"```text\n{examples}\n```" if examples else "")
        for heading, rows in records(name, command).items():
            cells = [(f"`{_cell(flags)}`", _cell(meaning)) for flags, meaning in rows]
            parts.append(f"**{heading}**\n\n" + table(("option", "meaning"), cells))
    return "\n\n".join(part for part in parts if part)


def prior_keys() -> str:
    return table(("key", "meaning"), [(f"`{key}`", text) for key, text in reference_rows()])


def warnings() -> str:
    """A heading for each code, which is also its anchor."""
    return "\n\n".join(
        f"## {code}\n\n{kind.meaning}\n\n**What to do.** {kind.remedy}"
        for code, kind in sorted(kinds().items())
    )


PARTS = {
    "commands.md": (commands, options),
    "files.md": (prior_keys,),
    "warnings.md": (warnings,),
}


def updated(name: str, page: str) -> str:
    """A page of the reference with its generated parts as they should be."""
    for part in PARTS[name]:
        mark = part.__name__.replace("_", " ")
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        page, count = re.subn(
            pattern, lambda m, part=part: f"{m[1]}{part()}\n{m[2]}", page, flags=re.DOTALL
        )
        assert count == 1, f"{name}: no place for the {mark}"
    return page


# ---- Man pages


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def man_page(name: str, command: click.Command) -> str:
    """The help of a command as a man page."""
    text, examples = described(command)
    title = f"punoise-{name}" if name else "punoise"
    short = command.get_short_help_str(200).rstrip(".")
    lines = [
        f'.TH "{title.upper()}" "1" "" "punoise {__version__}" "punoise"',
        f".SH NAME\n{_roff(title)} \\- {_roff(short)}",
        f".SH DESCRIPTION\n{_roff(text)}",
    ]
    if examples:
        lines.append(f".SH EXAMPLES\n.nf\n{_roff(examples)}\n.fi")
    if name:
        for heading, rows in records(name, command).items():
            lines.append(f".SH {heading.upper()}")
            lines += [f".TP\n.B {_roff(flags)}\n{_roff(meaning)}" for flags, meaning in rows]
    else:
        lines.append(".SH COMMANDS")
        for other, one in loaded().items():
            lines.append(f".TP\n.B {_roff(other)}\n{_roff(one.get_short_help_str(200))}")
    return "\n".join(lines) + "\n"


def write_man_pages(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "punoise.1").write_text(man_page("", cli), encoding="utf-8")
    for name, command in loaded().items():
        (folder / f"punoise-{name}.1").write_text(man_page(name, command), encoding="utf-8")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--man"]:
        return write_man_pages(Path(arguments[1]))
    for name in PARTS:
        page = (FOLDER / name).read_text(encoding="utf-8")
        if "--check" in arguments and updated(name, page) != page:
            sys.exit(f"{name}: out of date; run make reference")
        (FOLDER / name).write_text(updated(name, page), encoding="utf-8")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
