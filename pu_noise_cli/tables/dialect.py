"""How a text table is written: found once from the start of its file."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import InputError, option
from ..settings import Layout
from .files import BLOCK_BYTES, DELIMITERS, Dialect, Shard, magic_suffix
from .notation import Marks

SNIFF_BYTES, MAX_SNIFFED = 1 << 20, 1 << 24  # the latter if two rows are longer
MAX_ROWS, MAX_VALUES = 500, 20_000  # that are looked at
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'", " ": "spaces"}
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # Excel's own
NUMBERED = re.compile(r"^\[\d+\]")  # before each name in a header of bcftools
VCF = b"##fileformat=VCF"
VCF_FIELDS = re.compile(r"^##INFO=<ID=([^,]+),Number=[^,]+,Type=(?:Float|Integer)", re.MULTILINE)
MAX_FIELDS = 6  # that a command names


@dataclass(frozen=True)
class _Start:
    """The start of a text table, as lines."""

    comments: list[str]
    lines: list[str]  # after the comments
    skipped: int  # lines before the comments
    stated: str | None  # the delimiter that the file states itself
    whole: bool  # there is no more

    def rows(self, delimiter: str, quote: str = '"') -> Iterator[tuple[list[str], int]]:
        """The rows that are not blank, and the line that each ends on."""
        csv.field_size_limit(1 << 30)
        reader = csv.reader(self.lines, delimiter=delimiter, quotechar=quote)
        before = self.skipped + len(self.comments)
        found = ((row, before + reader.line_num) for row in reader if row)
        return itertools.islice(found, MAX_ROWS)


def sniff(shard: Shard, layout: Layout) -> Dialect:
    """Find how a text table is written."""
    for size in (SNIFF_BYTES, MAX_SNIFFED):
        raw = shard.open().read(size)
        start = _start(shard, raw, whole=len(raw) < size)
        if start.whole or sum(1 for _ in start.rows(",")) > 2:
            break
    else:
        raise InputError(
            f"{shard.name}: the first {MAX_SNIFFED} bytes hold no two rows; a row may have "
            f"{BLOCK_BYTES}, and a quote must be closed"
        )
    quote = _quote(start)
    delimiter = layout.separator or start.stated or _delimiter(shard, start, quote)
    found = list(start.rows(delimiter, quote))
    rows = [[value.strip() for value in row] for row, _ in found]
    if start.comments and _is_header(start.comments[-1], rows, delimiter):
        names = next(csv.reader([start.comments[-1][1:]], delimiter=delimiter, quotechar=quote))
        names = [NUMBERED.sub("", name.strip()) for name in names]
        lines, data = start.skipped + len(start.comments), rows
    elif rows:
        names, lines, data = rows[0], found[0][1], rows[1:]
    else:
        raise InputError(f"{shard.name}: the table is empty")
    header = _checked_header(shard, names, data, delimiter)
    marks = Marks.of(itertools.islice(itertools.chain.from_iterable(data), MAX_VALUES))
    return Dialect(delimiter, quote, tuple(header), lines, marks)


def _start(shard: Shard, raw: bytes, whole: bool) -> _Start:
    """The lines of a file's first bytes, which must be UTF-8 text."""
    _check_is_text(shard, raw)
    if raw.startswith(VCF):
        raise vcf_error(shard.name, raw.decode("utf-8", "replace"))
    if not whole:  # do not cut a character or a row in two
        raw = raw[: max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1]
    lines = list(io.StringIO(raw.decode("utf-8-sig"), newline=""))
    stated = SEPARATOR_LINE.fullmatch(lines[0].rstrip("\r\n")) if lines else None
    skipped = 0 if stated is None else 1
    comments = list(itertools.takewhile(lambda line: line.startswith("#"), lines[skipped:]))
    rest = lines[skipped + len(comments) :]
    return _Start(comments, rest, skipped, stated[1] if stated else None, whole)


def _check_is_text(shard: Shard, start: bytes) -> None:
    """Raise an input error if the first bytes belong to another format."""
    if not shard.format.compression and (suffix := magic_suffix(start)):
        raise InputError(f"{shard.name}: this is a {suffix} file by its content; name it so")


def vcf_error(name: str, start: str) -> InputError:
    """The error for a VCF file, with the command that makes a table of it."""
    fields = VCF_FIELDS.findall(start)[:MAX_FIELDS] or ["SCORE"]
    columns = "\\t".join(["%CHROM", "%POS", "%REF", "%ALT", *(f"%INFO/{f}" for f in fields)])
    return InputError(
        f"{name}: this is a VCF file; make a table of the fields that you need: bcftools norm -m- "
        f"{name} | bcftools query -H -f '{columns}\\n' > table.tsv"
    )


# ---- Delimiters


def _quote(start: _Start) -> str:
    """The quote: single ones if they enclose every name of the header."""
    line = start.lines[0].strip() if start.lines else ""
    single = len(line) > 2 and line[0] == line[-1] == "'" and re.search(r"'[,;\t|]'", line)
    return "'" if single else '"'


def _delimiter(shard: Shard, start: _Start, quote: str) -> str:
    """The delimiter: that which the file's name states, unless only another one fits."""
    named = DELIMITERS.get(shard.format.kind)
    widths = {d: _width(start, d, quote) for d in (named, *"\t,;|") if d is not None}
    fitting = {d: width for d, width in widths.items() if width > 1}
    if named == "," and named in fitting and len(fitting) > 1:
        other = next(d for d in fitting if d != named)
        raise InputError(
            f"{shard.name}: its columns may be separated by commas ({fitting[named]} columns) or "
            f"by {NAMES[other]} ({fitting[other]}); say which: {option('delimiter')} "
            f"'{named}' or '{_spelled(other)}'"
        )
    if named in fitting:
        return str(named)
    if fitting:
        return max(fitting, key=lambda d: fitting[d])
    _check_spaces(shard, start)
    first = start.lines[0] if start.lines else ""
    return named or ("," if "," in first and "\t" not in first else "\t")


def _spelled(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else delimiter


def _width(start: _Start, delimiter: str, quote: str) -> int:
    """The number of columns if all rows have as many, else 0; empty ones may follow in a row."""
    try:
        rows = [row for row, _ in start.rows(delimiter, quote)]
    except csv.Error:
        return 0
    if not start.whole:
        rows = rows[:-1] or rows  # the last one may be cut within quotes
    if start.comments and _is_header(start.comments[-1], rows, delimiter):
        rows.insert(0, start.comments[-1][1:].rstrip("\r\n").split(delimiter))
    if not rows:
        return 0
    width = _named(rows[0])
    fits = all(len(row) >= width and not any(map(str.strip, row[width:])) for row in rows)
    return width if fits else 0


def _named(names: Sequence[str]) -> int:
    """The number of names up to the last one that is not empty."""
    return max((i for i, name in enumerate(names, start=1) if name.strip()), default=0)


def _check_spaces(shard: Shard, start: _Start) -> None:
    """Raise an input error if columns seem to be separated by spaces."""
    rows = [line.split() for line in start.lines[:MAX_ROWS] if line.strip()]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) > 1 or widths == {1}:
        return
    if any(all(_is_number(row[i]) for row in rows[1:]) for i in range(widths.pop())):
        raise InputError(
            f"{shard.name}: its columns seem to be separated by spaces; make tabs of them: "
            f"sed -E 's/^ +//; s/ +/\\t/g' {shard.name} > table.tsv"
        )


# ---- Headers


def _checked_header(
    shard: Shard, names: list[str], data: Sequence[list[str]], delimiter: str
) -> list[str]:
    """The names of all columns, '' where only trailing delimiters make one."""
    named = _named(names)
    if named == 0:
        raise InputError(f"{shard.name}: the header names no column")
    if named > 1 and all(map(_is_number, names)) and not all(map(str.isdigit, names)):
        raise InputError(
            f"{shard.name}: the first line has numbers ({', '.join(names[:3])}, ...) where the "
            "names of the columns belong; put a line of names before it"
        )
    trailing = data[0][named:] if data else []
    if any(trailing) or (data and len(data[0]) < named):
        raise InputError(
            f"{shard.name}: row 1 has {len(data[0])} values where the header names {named} "
            f"columns{_header_advice(shard, names[:named], data, delimiter)}"
        )
    return names[:named] + trailing


def _header_advice(
    shard: Shard, names: Sequence[str], data: Sequence[list[str]], delimiter: str
) -> str:
    """What to do about a header that does not fit the rows."""
    if len(names) > 1:
        if all(len(row) == len(names) + 1 for row in data):
            return "; if the first value of each row is its name, put a name before the others"
        return ""
    if delimiter == "," and all(len(row) == 2 and all(map(str.isdigit, row)) for row in data):
        name, decimal = option("delimiter"), option("decimal")
        return f"; if it is one column of decimal commas: {name} ';' {decimal} ','"
    return (
        f"; if {names[0][:40]!r} is a title, remove the lines above the header: "
        f"tail -n +2 {shard.name}"
    )


def _is_header(comment: str, rows: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Whether a comment line names the columns: VCF's `#CHROM`, or bcftools' `# [1]CHROM`."""
    if comment.startswith("##") or not rows:
        return False
    if comment[1:2].isspace() and not NUMBERED.match(comment[1:].strip()):
        return False
    width = len(next(csv.reader([comment[1:]], delimiter=delimiter)))
    return width == len(rows[0]) and (width > 1 or _is_number(rows[0][0]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
