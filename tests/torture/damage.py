"""Ways to damage a file: its bytes, its values, or what only looks like it."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOSTILE_TEXTS = (
    *("", " ", "nan", "inf", "-inf", "1e400", "1e308", "-1e308", "1e-320", "NA", "=1+1", "0x10"),
    *("\x1b[2J\x1b]0;x\x07", "\u202eevil", "\ud800", "a" * 5000, "'\";--", "\0", "é", "\r", '"'),
    *("../../etc/passwd", "true", "labeled", "1,2", "1\t2", "#", "𝔘"),
)
HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**63, -(2**70), 10**400, 0.5, -0.1, 1.1, 1e308),
    *(math.nan, math.inf, -math.inf, [], {}, [[]], [1, 2, 3], {"a": 1}, [0.9, 0.1], *HOSTILE_TEXTS),
)


def damage(path: Path, rng: Random) -> tuple[str, bytes]:
    """The content of a file, damaged in one of the ways that suit it, and the way's name."""
    raw = path.read_bytes()
    ways = {"bytes": damage_bytes}
    if path.suffix == ".json":
        ways["values"] = damage_json
    elif path.suffix in (".model", ".sketch"):
        ways["values"] = damage_archive
    elif path.suffix == ".parquet":
        ways["values"] = damage_parquet
    else:
        ways["values"] = damage_text
    way = rng.choice(list(ways))
    try:
        return way, ways[way](raw, rng)
    except (ValueError, TypeError, pa.ArrowException, OverflowError, UnicodeError):
        return "bytes", damage_bytes(raw, rng)


def damage_bytes(raw: bytes, rng: Random) -> bytes:
    """Flipped bits, lost, doubled, foreign or empty ranges, one to four at a time."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        if not data:
            return bytes(data)
        start = rng.randrange(len(data))
        size = min(rng.choice((1, 2, 4, 8, 64, 1024)), len(data) - start)
        kind = rng.randrange(7)
        if kind <= 1:
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[start : start + size]
        elif kind == 3:
            data[start:start] = data[start : start + size]
        elif kind == 4:
            data[start : start + size] = rng.randbytes(size)
        elif kind == 5:
            data[start : start + size] = rng.choice((b"\0", b"\xff", b"\x7f")) * size
        else:
            del data[start:]
    return bytes(data)


def damage_json(raw: bytes, rng: Random) -> bytes:
    """Some value anywhere in a document replaced, removed or nested."""
    document = json.loads(raw)
    for _ in range(rng.randint(1, 3)):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            kind = rng.randrange(5)
            if kind == 0:
                del place[key]
            elif kind == 1 and isinstance(place, list):
                place.extend(place * rng.choice((1, 50)))
            elif kind == 2:
                place[key] = [place[key]]
            else:
                place[key] = rng.choice(HOSTILE_VALUES)
            break
    text = json.dumps(document)
    if rng.random() < 0.05:
        return gzip.compress(text.encode(), mtime=0)
    return text.encode("utf-8", "backslashreplace")


def damage_archive(raw: bytes, rng: Random) -> bytes:
    """An array or the header changed, in an archive that is otherwise whole."""
    with zipfile.ZipFile(io.BytesIO(raw)) as stored:
        members = {name: stored.read(name) for name in stored.namelist()}
    name = rng.choice(list(members))
    how = zipfile.ZIP_STORED
    kind = rng.randrange(8)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = damage_bytes(members[name], rng)
    elif kind == 2:
        members[rng.choice(("more.npy", "header", "../x.npy"))] = bytes(1 << 16)
    elif kind == 3:
        how = zipfile.ZIP_DEFLATED
    elif kind <= 5 and "header.npy" in members:
        header = bytes(np.load(io.BytesIO(members["header.npy"])))
        changed = np.frombuffer(damage_json(header, rng), np.uint8)
        members["header.npy"] = _saved(changed)
    else:
        array = np.load(io.BytesIO(members[name]))
        members[name] = _saved(_damaged_array(array, rng))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as stored:
        for member, content in members.items():
            stored.writestr(member, content)
    return file.getvalue()


def _saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _damaged_array(array: np.ndarray, rng: Random) -> np.ndarray:
    kind = rng.randrange(6)
    if kind == 0:
        return array.astype(rng.choice(("f4", "f8", "i1", "i8", "u8", "?", "U5")))
    if kind == 1:
        return np.append(array.ravel(), array.ravel()[:1])
    if kind == 2:
        return array.ravel()[::-1].reshape(array.shape)
    if kind == 3:
        return array[None]
    changed = array.copy().ravel()
    for _ in range(rng.randint(1, 3)):
        if changed.size:
            values = (0, 1, -1, 2**31 - 1, -(2**31), math.nan, math.inf, 1e300, 7)
            with np.errstate(all="ignore"):
                changed[rng.randrange(changed.size)] = np.array(rng.choice(values)).astype(
                    changed.dtype
                )
    return changed.reshape(array.shape)


def damage_text(raw: bytes, rng: Random) -> bytes:
    """Cells, rows or columns of a text table changed."""
    packed = raw[:2] == b"\x1f\x8b"
    text = (gzip.decompress(raw) if packed else raw).decode()
    delimiter = "\t" if "\t" in text else ","
    rows = [line.split(delimiter) for line in text.splitlines()]
    for _ in range(rng.randint(1, 5)):
        row = rng.randrange(len(rows))
        column = rng.randrange(len(rows[row])) if rows[row] else 0
        kind = rng.randrange(6)
        if kind <= 2 and rows[row]:
            rows[row][column] = rng.choice(HOSTILE_TEXTS)
        elif kind == 3:
            rows[row] = rows[row][:column]
        elif kind == 4:
            value = rng.choice(HOSTILE_TEXTS)
            for other in rows[1:]:
                other[column : column + 1] = [value]
        else:
            rows.insert(row, list(rng.choice(rows)))
    found = "\n".join(delimiter.join(row) for row in rows).encode("utf-8", "surrogatepass")
    found = rng.choice((b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"#x\n")) + found
    return gzip.compress(found, mtime=0) if packed else found


def damage_parquet(raw: bytes, rng: Random) -> bytes:
    """A column of other values, or of another type."""
    table = pq.read_table(io.BytesIO(raw))
    at = rng.randrange(table.num_columns)
    name, n = table.schema.names[at], table.num_rows
    columns = [
        pa.array([rng.choice((0.5, math.nan, math.inf, 1e308, -1e308, None)) for _ in range(n)]),
        pa.array([rng.choice(("a", "", "nan", "\x1b[2J", "labeled")) for _ in range(n)]),
        pa.array([[1.0]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([None] * n),
        pa.array([b"\xff\xfe"] * n, pa.binary()).view(pa.string()),
        pa.array([b"\xff\xfe"] * n, pa.binary()),
        pa.array([2**62 + i for i in range(n)]),
        pa.array(list(range(n))).cast(pa.timestamp("s")),
        pa.array(["x" * 10**5] * n),
        pa.array(["q"] * n).dictionary_encode(),
        pa.array([rng.random() < 0.5 for _ in range(n)]),
    ]
    if rng.random() < 0.2:
        changed = rng.choice(
            (
                table.slice(0, 0),
                table.slice(0, 7),
                table.drop([name]),
                table.append_column(name, columns[0]),
            )
        )
    else:
        changed = table.set_column(
            at, rng.choice((name, name, name, "\x1b[1m")), rng.choice(columns)
        )
    file = io.BytesIO()
    pq.write_table(changed, file, write_page_checksum=True)
    return file.getvalue()
