"""Metamorphic relations: what must not change if rows, names, formats or the path to them change.

Each case draws small tables, options and one relation, computes twice and compares. Commands run in
this process. The seed, the kind and the number of a case settle all of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

NOBODY = 999_999_999  # the number of no process
ONE_GROUP = True  # whether --by with a single group must give what no group gives
TOLERANCE = 1e-9  # where sums run in another order
NOT_COMPARED = {"punoise_version", "sample"}


class Refused(Exception):
    """A command ended with an error that a user can act on."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code


class Wrong(Exception):
    """A relation does not hold, or a command failed as none may."""


def call(*words: object) -> str:
    """Run a command here; what it says on stderr."""
    from pu_noise_cli.cli import process

    said, command = io.StringIO(), [str(word) for word in words]

    def run() -> object:
        return process.cli.main(command, prog_name="punoise", standalone_mode=False)

    with contextlib.redirect_stderr(said):
        code = process.exit_code(run)
    if code in (2, 3, 4):
        raise Refused(code, said.getvalue().strip())
    if code != 0:
        raise Wrong(f"exit code {code} of {command}: {said.getvalue()[-300:]}")
    return said.getvalue()


# ---- A case


@dataclass(frozen=True)
class Case:
    """Tables with a score column, and the options that apply to them."""

    rows: pd.DataFrame  # id, set, x, g, one
    columns: tuple[str, ...]  # options about columns
    estimation: tuple[str, ...]
    posterior: tuple[str, ...]
    seed: int
    labeled_are: str = "positives"
    by: str | None = None
    keywords: dict[str, Any] = field(default_factory=dict)  # the same, for Python

    @property
    def words(self) -> tuple[str, ...]:
        labels = ("--labeled-are", "negatives") if self.labeled_are == "negatives" else ()
        return (*labels, *self.columns, "--seed", str(self.seed), "-q")

    def frames(self) -> dict[str, pd.DataFrame]:
        """The table of each set that has rows."""
        order = ("labeled", "unlabeled", "negative")
        tables = {name: self.rows[self.rows["set"] == name] for name in order}
        return {name: t.drop(columns="set") for name, t in tables.items() if len(t)}


def draw(rng: Random, folder: Path) -> Case:
    """A random case; files that a stranger may leave lie around in its directory."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    sizes = {"labeled": rng.randint(20, 120), "unlabeled": rng.randint(40, 280)}
    negatives_labeled = rng.random() < 0.2
    if not negatives_labeled and rng.random() < 0.2:
        sizes["negative"] = rng.randint(20, 80)
    alpha, beta = rng.uniform(0, 0.6), rng.choice((1.0, rng.uniform(0.7, 1)))
    if negatives_labeled:
        beta = 1 - beta
    share = {"labeled": beta, "unlabeled": alpha, "negative": 0.0}
    gap, digits = rng.choice((0.0, 1.0, 2.0, 4.0)), rng.choice((0, 1, 2, 6, 6, 6))
    parts = []
    for name, n in sizes.items():
        x = numbers.normal(size=n) + gap * (numbers.random(n) < share[name])
        parts.append(pd.DataFrame({"set": name, "x": x.round(digits) + 0.0}))
    rows = pd.concat(parts, ignore_index=True)
    rows.insert(0, "id", [f"r{i}" for i in range(len(rows))])
    rows["g"] = numbers.choice(["red", "green", "blue"], len(rows))
    rows["one"] = "all"
    columns = ["--score-column", "x", "--id-column", "id", "--keep-columns", "g,one"]
    keywords: dict[str, Any] = {"score_column": "x", "keep_columns": ["g", "one"]}
    if rng.random() < 0.15:
        rows.loc[numbers.random(len(rows)) < 0.05, "x"] = np.nan
        columns += ["--missing-score", "skip"]
        keywords["missing_score"] = "skip"
    if rng.random() < 0.15:
        rows["x"] = -rows["x"]
        columns.append("--lower-is-positive")
        keywords["lower_is_positive"] = True
    if rng.random() < 0.3:
        plant(folder, rng)
    estimation, more = _estimation(rng)
    wanted = _wanted(rng)
    by = "g" if rng.random() < 0.2 and "--target-alpha" not in wanted else None
    seed = rng.choice((0, 0, 7))
    labeled_are = "negatives" if negatives_labeled else "positives"
    keywords |= {**more, "seed": seed, "labeled_are": labeled_are, "by": by}
    return Case(rows, tuple(columns), estimation, wanted, seed, labeled_are, by, keywords)


def _estimation(rng: Random) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Options of estimate-prior, and the same as keywords."""
    choice = rng.random()
    if choice < 0.45:
        return (), {}
    if choice < 0.55:
        beta = rng.choice((0.9, 0.99, 1.0))
        return ("--beta", str(beta)), {"beta": beta}
    if choice < 0.65:
        return ("--purity", "0.0"), {"purity": 0.0}
    if choice < 0.8:
        low = rng.choice((0.0, 0.05, 0.2))
        return (
            ("--alpha-between", str(low), str(low + 0.3)),
            {"alpha_between": (low, low + 0.3)},
        )
    method = rng.choice(("elkan-noto", "bound", "elkan-noto", "bound", "alphamax-n"))
    return ("--method", method), {"method": method}


def _wanted(rng: Random) -> tuple[str, ...]:
    """Options of posterior that run does not have, and those that it has."""
    choice = rng.random()
    if choice < 0.5:
        return ()
    if choice < 0.7:
        return ("--bounds",)
    if choice < 0.85:
        return ("--target-alpha", rng.choice(("0.05", "0.3")))
    return ("--bounds", "--target-alpha", "0.1")


def plant(folder: Path, rng: Random) -> None:
    """What a stranger or a killed run may have left where outputs go."""
    from pu_noise_cli.tables.files import document
    from pu_noise_cli.tables.results import Provenance
    from pu_noise_cli.tables.writing import _host, write_json

    kind = rng.randrange(5)
    out = folder / "out"
    out.mkdir()
    if kind == 0:
        (out / "provenance.json").write_text("[" * 1000)
    elif kind == 1:
        os.mkfifo(out / "provenance.json")
    elif kind == 2:
        (out / "provenance.json").write_text('{"complete": false}')
    elif kind == 3:
        (folder / "victim").mkdir()
        (folder / "victim" / "_manifest.json").write_text("mine")
        (out / "scores").symlink_to(folder / "victim", target_is_directory=True)
        stated = Provenance(complete=False, files={"scores/_manifest.json": "", "notes": ""})
        write_json(str(out / "provenance.json"), document(stated))
    else:
        (out / f".punoise.{_host()}-{NOBODY}-aaaaaaaa.tmp").mkdir()
        (out / "posterior.csv").write_text("mine")


# ---- Outputs


def write(case: Case, folder: Path, form: str = "csv") -> tuple[str, ...]:
    """Write the tables; the options that name them."""
    words: list[str] = []
    folder.mkdir(exist_ok=True)
    if form == "labels":
        table = folder / "all.csv"
        rows = case.rows.sort_values("set", kind="stable")  # as tables come: training heeds it
        rows.rename(columns={"set": "known"}).to_csv(table, index=False)
        return ("--table", str(table), "--label-column", "known")
    for name, frame in case.frames().items():
        path = folder / f"{name}.{form}"
        if form == "parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False, sep="\t" if form.startswith("tsv") else ",")
        words += [f"--{'negatives' if name == 'negative' else name}", str(path)]
    return tuple(words)


@dataclass(frozen=True, eq=False)
class Found:
    """A prior, and posteriors by id."""

    prior: dict[str, Any]
    posterior: pd.DataFrame

    def without(self, *columns: str) -> Found:
        return replace(self, posterior=self.posterior.drop(columns=[*columns], errors="ignore"))


def chain(case: Case, folder: Path, form: str = "csv", threads: int = 1) -> Found:
    """transform, estimate-prior and posterior."""
    folder.mkdir(exist_ok=True)
    tables = write(case, folder, form)
    scores = folder / "scores.parquet"
    call("transform", *tables, *case.words, "--threads", threads, "--out", scores)
    return from_scores(case, folder, scores, threads)


def from_scores(case: Case, folder: Path, scores: Path, threads: int = 1) -> Found:
    """estimate-prior and posterior."""
    prior, out = folder / "prior.json", folder / "posterior.parquet"
    common = ("-q", "--threads", threads, "--seed", case.seed)
    call("estimate-prior", "--scores", scores, *case.estimation, *common, "--out", prior)
    by = () if case.by is None else ("--by", case.by)
    words = ("--scores", scores, "--prior", prior, *case.posterior, *by)
    call("posterior", *words, *common, "--out", out)
    return read(prior, out)


def read(prior: Path, posterior: Path) -> Found:
    document = json.loads(prior.read_text(), parse_constant=_no_constant)
    table = pd.read_parquet(posterior).set_index("id")
    _check(table)
    return Found({k: v for k, v in document.items() if k not in NOT_COMPARED}, table)


def _no_constant(text: str) -> None:
    raise Wrong(f"{text} in prior.json")


def _check(table: pd.DataFrame) -> None:
    """Probabilities are within 0 and 1, and bounds enclose."""
    for name in ("posterior", "posterior_low", "posterior_high", "fdr", "tau"):
        if name in table and not table[name].dropna().between(0, 1).all():
            raise Wrong(f"{name} is not within 0 and 1")
    if "posterior_low" in table:
        known = table[table["posterior"].notna()]
        low, p, high = (known[c] for c in ("posterior_low", "posterior", "posterior_high"))
        if not ((low <= p + TOLERANCE) & (p <= high + TOLERANCE)).all():
            raise Wrong("bounds do not enclose the posterior")
    if not (table["lr"].dropna() >= 0).all():
        raise Wrong("a likelihood ratio is negative")


def same(one: Found, other: Found, exactly: bool = True) -> None:
    """Both must be alike, posteriors by id."""
    _same_values(one.prior, other.prior, "prior", exactly)
    a, b = one.posterior, other.posterior
    if set(a.columns) != set(b.columns) or set(a.index) != set(b.index):
        raise Wrong(f"other rows or columns: {sorted(set(a.columns) ^ set(b.columns))}")
    b = b.loc[a.index, a.columns]
    for name in a.columns:
        _same_column(a[name], b[name], name, exactly)


def _same_column(a: pd.Series, b: pd.Series, name: str, exactly: bool) -> None:
    if a.dtype.kind != "f" or exactly:
        if not a.equals(b):
            place = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if _differ(x, y))
            raise Wrong(f"column {name}: {a.iloc[place]!r} and {b.iloc[place]!r}")
        return
    x, y = a.to_numpy(), b.to_numpy()
    if not np.allclose(x, y, rtol=1e-6, atol=TOLERANCE, equal_nan=True):
        place = int(np.nanargmax(np.abs(x - y)))
        raise Wrong(f"column {name}: {x[place]!r} and {y[place]!r}")


def _differ(x: Any, y: Any) -> bool:
    return not (x == y or (x != x and y != y) or (x is None and y is None))


def _same_values(a: Any, b: Any, place: str, exactly: bool) -> None:
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            _same_values(a[key], b[key], f"{place}.{key}", exactly)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            _same_values(x, y, f"{place}[{i}]", exactly)
    elif isinstance(a, float) and isinstance(b, float) and not exactly:
        if not math.isclose(a, b, rel_tol=1e-6, abs_tol=TOLERANCE):
            raise Wrong(f"{place}: {a!r} and {b!r}")
    elif a != b:
        raise Wrong(f"{place}: {a!r} and {b!r}")


# ---- Relations

Relation = Callable[[Random, Case, Path], None]


def order(rng: Random, case: Case, folder: Path) -> None:
    """The order of rows changes nothing."""
    other = replace(case, rows=case.rows.sample(frac=1, random_state=rng.randrange(1 << 30)))
    same(chain(case, folder / "a"), chain(other, folder / "b"))


def ids(rng: Random, case: Case, folder: Path) -> None:
    """Neither do the ids."""
    starts = ("é", "a,b", 'q"q', "=1", "7")
    names = [f"{rng.choice(starts)} {i}" for i in range(len(case.rows))]
    found = chain(case, folder / "a")
    renamed = chain(replace(case, rows=case.rows.assign(id=names)), folder / "b")
    back = dict(zip(names, case.rows["id"], strict=True))
    same(found, replace(renamed, posterior=renamed.posterior.rename(index=back)))


def formats(rng: Random, case: Case, folder: Path) -> None:
    """Nor does the format of the tables, or one table with a label column."""
    form = rng.choice(("parquet", "tsv", "tsv.gz", "csv.gz", "labels"))
    same(chain(case, folder / "a"), chain(case, folder / "b", form))


def scale(rng: Random, case: Case, folder: Path) -> None:
    """An increasing function changes the scores only, and AlphaMax, which bins them."""
    if "alphamax-n" in case.estimation:
        case = replace(case, estimation=())
    functions = (np.arctan, np.exp, lambda x: 1e6 * x, lambda x: x**3 + x, lambda x: x / 1e9 - 3)
    function = rng.choice(functions)
    changed = case.rows.assign(x=function(case.rows["x"]))
    if changed["x"].nunique() != case.rows["x"].nunique():
        raise Refused(0, "the function merges scores")
    found, other = chain(case, folder / "a"), chain(replace(case, rows=changed), folder / "b")
    for one in (found, other):
        one.prior.pop("curve")
    same(found.without("score"), other.without("score"))


def sketches(rng: Random, case: Case, folder: Path) -> None:
    """Sketches of parts, in any order, give the prior and posteriors of the whole."""
    case = replace(case, by=None)
    whole = chain(case, folder / "a")
    scores = pd.read_parquet(folder / "a" / "scores.parquet")
    place = np.array([rng.randrange(3) for _ in range(len(scores))])
    parts = []
    for i in rng.sample(range(3), 3):
        if (place == i).any():
            part = folder / f"{i}.tsv"
            scores[place == i].to_csv(part, sep="\t", index=False)
            _sketch(part)
            parts += ["--sketch", f"{part}.sketch"]
    prior, out = folder / "p.json", folder / "q.parquet"
    common = ("-q", "--threads", 1, "--seed", case.seed)
    labels = ("--labeled-are", case.labeled_are) if case.labeled_are == "negatives" else ()
    call("estimate-prior", *parts, *labels, *case.estimation, *common, "--out", prior)
    words = ("--scores", folder / "a" / "scores.parquet", "--prior", prior, *case.posterior)
    call("posterior", *words, *parts, *common, "--out", out)
    same(whole, read(prior, out))


def _sketch(scores: Path) -> None:
    """Write the sketch of scores, which may be few."""
    from pu_noise_cli.scale.engine import Engine
    from pu_noise_cli.score.scores import SketchScores, open_scores
    from pu_noise_cli.score.sketch import write_sketch

    sketch = Engine().gather(SketchScores(), open_scores(str(scores)), "sketch")
    write_sketch(sketch, f"{scores}.sketch")


def threads(rng: Random, case: Case, folder: Path) -> None:
    """Neither threads nor a second time change a byte."""
    chain(case, folder / "a")
    chain(case, folder / "b", threads=rng.choice((1, 2, 3)))
    for name in ("scores.parquet", "prior.json", "posterior.parquet"):
        if (folder / "a" / name).read_bytes() != (folder / "b" / name).read_bytes():
            raise Wrong(f"{name} differs")


def target(rng: Random, case: Case, folder: Path) -> None:
    """Posteriors for a population with the same alpha are those of the rows."""
    case = replace(case, by=None, posterior=rng.choice(((), ("--bounds",))))
    found = chain(case, folder / "a")
    alpha = found.prior["alpha"]
    if not 1e-6 < alpha < 1 - 1e-6:
        raise Refused(0, "alpha is 0 or 1")
    if "posterior_low" in found.posterior:
        found = found.without("posterior_low", "posterior_high")
    case = replace(case, posterior=("--target-alpha", repr(alpha)))
    same(found, chain(case, folder / "b").without("target_alpha"), exactly=False)


def one_group(rng: Random, case: Case, folder: Path) -> None:
    """One group is no group."""
    case = replace(case, by=None, posterior=rng.choice(((), ("--bounds",))))
    same(chain(case, folder / "a"), chain(replace(case, by="one"), folder / "b"), exactly=False)


def run(rng: Random, case: Case, folder: Path) -> None:
    """run gives what its steps give."""
    from_run = ("--bounds",)  # posterior alone has it
    wanted = tuple(word for word in case.posterior if word not in from_run)
    case = replace(case, posterior=wanted)
    by = () if case.by is None else ("--by", case.by)
    out = folder / "out"
    keep = [path for path in (out / "posterior.csv", folder / "victim") if path.exists()]
    words = (*case.words, *case.estimation, *wanted, *by, "--threads", 1)
    call("run", *write(case, folder / "tables"), *words, "--out-dir", out)
    if not all(path.exists() for path in keep) or (folder / "victim").exists() != (
        (folder / "victim" / "_manifest.json").exists()
    ):
        raise Wrong("files of a stranger are gone")
    if [path.name for path in out.iterdir() if path.name[0] == "."]:
        raise Wrong("hidden files are left")
    same(read(out / "prior.json", out / "posterior.parquet"), chain(case, folder / "a"))


def learned(rng: Random, case: Case, folder: Path) -> None:
    """The same of a score that is learned from two columns."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    noisy = case.rows["x"].fillna(0) + numbers.normal(size=len(case.rows)).round(3)
    words = ("--features", "x,y", "--classifier", "logistic", "--id-column", "id")
    keep = ("--keep-columns", "g,one")
    case = replace(case, rows=case.rows.assign(y=noisy), columns=(*words, *keep), keywords={})
    rng.choice((run, threads, formats))(rng, case, folder)


def python(rng: Random, case: Case, folder: Path) -> None:
    """estimate() gives what run gives."""
    import pu_noise_cli

    case = replace(case, posterior=())
    frames = case.frames()
    keywords = dict(case.keywords)
    if "negative" in frames:
        keywords["negatives"] = frames["negative"]
    found = _api(pu_noise_cli, frames, keywords)
    by = () if case.by is None else ("--by", case.by)
    out = folder / "out"
    words = (*case.words, *case.estimation, *by, "--threads", 1)
    call("run", *write(case, folder / "tables"), *words, "--out-dir", out)
    written = read(out / "prior.json", out / "posterior.parquet")
    tables = {"labeled": found.labeled, "unlabeled": found.unlabeled, "negative": found.negatives}
    parts = []
    for name, frame in frames.items():
        table = tables[name]
        ours = table.assign(id=frame["id"].to_numpy(), set=name)
        parts.append(ours.assign(posterior_labeled=table.get("posterior_labeled", np.nan)))
    joined = pd.concat(parts).set_index("id")
    prior = {k: v for k, v in found.prior.items() if k not in NOT_COMPARED}
    same(written, Found(json.loads(json.dumps(prior)), joined))


def _api(package: Any, frames: dict[str, pd.DataFrame], keywords: dict[str, Any]) -> Any:
    from pu_noise_cli.errors import PunoiseError

    tables = [frames[name].drop(columns="id") for name in ("labeled", "unlabeled")]
    if "negatives" in keywords:
        keywords["negatives"] = keywords["negatives"].drop(columns="id")
    try:
        return package.estimate(*tables, **keywords)
    except PunoiseError as error:
        raise Refused(error.exit_code, str(error)) from error


def audits(rng: Random, case: Case, folder: Path) -> None:
    """The order of verdicts, and of the files that hold them, changes nothing."""
    case = replace(case, estimation=(), by=None)
    chain(case, folder / "a")
    source = ("--scores", folder / "a" / "scores.parquet")
    common = ("-q", "--threads", 1, "--seed", case.seed)
    first, second = folder / "1.tsv", folder / "2.tsv"
    size = rng.randint(13, 30)
    draw_rows = ("audit", *source, "--prior", folder / "a" / "prior.json", "--rows", size, *common)
    labeled = () if rng.random() < 0.5 else ("--labeled-rows", 15)
    call(*draw_rows, *labeled, "--out", first)
    _fill(first, rng)
    files = [first]
    if rng.random() < 0.5:
        call(*draw_rows, "--verdicts", first, "--out", second)
        _fill(second, rng)
        files.append(second)
    given = [word for file in files for word in ("--verdicts", file)]
    call("estimate-prior", *source, *given, *common, "--out", folder / "p.json")
    for file in files:
        table = pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False)
        shuffled = table.sample(frac=1, random_state=rng.randrange(1 << 30))
        shuffled.to_csv(file, sep="\t", index=False)
    again = [word for file in files[::-1] for word in ("--verdicts", file)]
    call("estimate-prior", *source, *again, *common, "--out", folder / "q.json")
    one, other = (json.loads((folder / f"{name}.json").read_text()) for name in "pq")
    _same_values(one, other, "prior", exactly=True)
    low, high = one["alpha_ci"]
    if not low <= one["alpha"] <= high:
        raise Wrong(f"alpha {one['alpha']} is outside of [{low}, {high}]")


def _fill(file: Path, rng: Random) -> None:
    audit = pd.read_csv(file, sep="\t", dtype={"verdict": object})
    audit["verdict"] = ["yes" if rng.random() < p else "no" for p in audit["posterior"]]
    audit.to_csv(file, sep="\t", index=False)


def matches(rng: Random, case: Case, folder: Path) -> None:
    """The order of the rows of a .pin file, its compression and its second line change nothing."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    head = "SpecId\tLabel\tScanNr\tExpMass\txcorr\tPeptide\tProteins"
    lines = []
    for scan in range(rng.randint(90, 180)):
        correct = scan % 2 == 0
        for label in (1, -1):
            x = float(numbers.normal() + 3 * (correct and label == 1))  # ties are broken by place
            number = scan % 20 if correct and label == 1 else 100 + 2 * scan + (label == 1)
            proteins = "\t".join(f"{'' if label == 1 else 'rev_'}P{number}_{j}" for j in range(2))
            values = f"s{scan}_{label}", label, scan, 500 + scan, x, f"K.{number}.R", proteins
            lines.append("\t".join(map(str, values)))
    words = ("-q", "--threads", "1", "--seed", case.seed, "--score-column", "xcorr")
    outputs = []
    for name, rows in (("a", lines), ("b", rng.sample(lines, len(lines)))):
        second = ["DefaultDirection\t-\t-\t-\t1"] if name == "b" and rng.random() < 0.5 else []
        (folder / name).mkdir()
        path = folder / name / "search.pin"
        path.write_text("\n".join([head, *second, *rows]) + "\n")
        call("matches", path, *words, "--out-dir", folder / name / "out")
        outputs.append(_files(folder / name / "out"))
    _same_files(*outputs)


def calibrate(rng: Random, case: Case, folder: Path) -> None:
    """calibrate gives what run gives, and thresholds that do not depend on the order of rows."""
    if case.labeled_are == "negatives":
        raise Refused(0, "evidence needs labeled positives")
    case = replace(case, by=None, posterior=())
    words = (*case.words, *case.estimation, "--threads", 1, "--target-alpha", "0.1")
    other = replace(case, rows=case.rows.sample(frac=1, random_state=rng.randrange(1 << 30)))
    tables, shuffled = write(case, folder / "a"), write(other, folder / "b")
    call("run", *tables, *words, "--out-dir", folder / "a" / "run")
    for name, given in (("a", tables), ("b", shuffled)):
        call("calibrate", *given, *words, "--out-dir", folder / name / "out")
    found, with_evidence = (
        read(folder / "a" / name / "prior.json", folder / "a" / name / "posterior.parquet")
        for name in ("run", "out")
    )
    same(found, with_evidence.without("evidence"))
    _same_files(*(_files(folder / name / "out", "thresholds.tsv") for name in "ab"))


def _files(folder: Path, names: str = "*.tsv") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob(names)}


def _same_files(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    if not one or one.keys() != other.keys():
        raise Wrong(f"files {sorted(one)} and {sorted(other)}")
    for name in one:
        if one[name] != other[name]:
            raise Wrong(f"{name} differs")


RELATIONS: dict[str, Relation] = {
    "order": order,
    "ids": ids,
    "formats": formats,
    "scale": scale,
    "sketches": sketches,
    "threads": threads,
    "target alpha": target,
    "chain = run": run,
    "Python = run": python,
    "learned": learned,
    "audit": audits,
    "calibrate": calibrate,
    "matches": matches,
}
if ONE_GROUP:
    RELATIONS["one group"] = one_group


def one_case(seed: int, number: int) -> tuple[str, str | None, float]:
    """Try one case: the relation, what is wrong, and the seconds it took."""
    rng, start = Random(f"{seed} relations {number}"), time.monotonic()
    name = list(RELATIONS)[number % len(RELATIONS)]
    fault, row = None, f"relation {name}"
    folder = Path(tempfile.mkdtemp(prefix="relation-"))
    try:
        RELATIONS[name](rng, draw(rng, folder), folder)
    except Refused as error:
        row = f"refused {name}"
        if error.code == 2:
            fault = f"wrong usage: {error}"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        if keep := os.environ.get("PUNOISE_TORTURE_KEEP"):  # for whoever looks into it
            shutil.copytree(folder, f"{keep}/relation-{number}", symlinks=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row, fault, time.monotonic() - start


def _some(seed: int, numbers: Sequence[int]) -> list[tuple[int, tuple[str, str | None, float]]]:
    return [(number, one_case(seed, number)) for number in numbers]


def cases(
    seed: int, first: int, count: int | None, seconds: float
) -> Iterator[tuple[int, tuple[str, str | None, float]]]:
    """So many cases, or those that the time allows, on all cores; each with its number."""
    workers, deadline, at_once = os.cpu_count() or 1, time.monotonic() + seconds, 2 * len(RELATIONS)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        last = math.inf if count is None else first + count
        while first < last and (count is not None or time.monotonic() < deadline):
            starts = [first + i * at_once for i in range(workers)]
            batches = [range(s, int(min(s + at_once, last))) for s in starts]
            for batch in pool.map(_some, [seed] * workers, batches):
                yield from batch
            first += at_once * workers
