"""Writes the generated parts of docs/reference.md: options, keys of prior.json, warnings.

python docs/make_reference.py            update the page
python docs/make_reference.py --check    exit with 1 if it is out of date
"""

import re
import sys
from pathlib import Path

from pu_noise_cli.cli.options import definitions
from pu_noise_cli.cli.process import COMMANDS, cli
from pu_noise_cli.errors import option
from pu_noise_cli.notices import kinds
from pu_noise_cli.prior.document import reference_rows

PAGE = Path(__file__).parent / "reference.md"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def commands() -> str:
    context = cli.make_context("punoise", ["run"], resilient_parsing=True)
    found = {name: cli.get_command(context, name) for name in COMMANDS}
    return table(
        ("command", "purpose"),
        [(f"`{name}`", command.get_short_help_str(99)) for name, command in found.items()],
    )


def options() -> str:
    """Each option once for each help text that it has, with the commands that take it."""
    takers: dict[tuple[str, str], list[str]] = {}
    for command in COMMANDS:
        for name, entry in definitions(command).items():
            if entry.get("kind") != "argument":
                flags = "`, `".join(re.split("[ /]", entry.get("flag", option(name))))
                takers.setdefault((f"`{flags}`", entry.get("help", "")), []).append(command)
    rows = [
        (flags, ", ".join(names) if len(names) < len(COMMANDS) else "all", text)
        for (flags, text), names in sorted(takers.items())
    ]
    return table(("option", "commands", "meaning"), rows)


def prior_keys() -> str:
    return table(("key", "meaning"), [(f"`{key}`", text) for key, text in reference_rows()])


def warnings() -> str:
    rows = [(f"`{code}`", kind.meaning, kind.remedy) for code, kind in sorted(kinds().items())]
    return table(("code", "meaning", "what to do"), rows)


def updated(page: str) -> str:
    for part in (commands, options, prior_keys, warnings):
        mark = part.__name__.replace("_", " ")
        pattern = rf"(<!-- {mark} -->\n).*?(\n<!-- end -->)"
        page, count = re.subn(
            pattern, lambda m, part=part: m[1] + part() + m[2], page, flags=re.DOTALL
        )
        assert count == 1, f"{PAGE}: no place for the {mark}"
    return page


if __name__ == "__main__":
    page = PAGE.read_text()
    if "--check" in sys.argv and updated(page) != page:
        sys.exit(f"{PAGE}: out of date; run make reference")
    PAGE.write_text(updated(page))
