"""Over two hundred malformed inputs: each ends in exit 2 or 3 with one line, and writes nothing."""

import gzip
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.errors import InputError
from pu_noise_cli.prior.estimation import failed_prior
from pu_noise_cli.score.sketch import MIN_ROWS

N = 40
rng = np.random.default_rng(1)
GOOD = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N), "k": list("xy") * (N // 2)})


def text(frame=GOOD, sep=",") -> str:
    return frame.to_csv(index=False, sep=sep)


def with_value(value, column="a", row=17) -> pd.DataFrame:
    frame = GOOD.astype(object)
    frame.loc[row, column] = value
    return frame


def edited(line: int, change) -> str:
    lines = text().splitlines(keepends=True)
    lines[line] = change(lines[line])
    return "".join(lines)


# what is wrong, the text of the table, and what the message must say
TABLES = {
    "text in a number": (text(with_value("abc")), "'abc' in row 18"),
    "unknown word for missing": (text(with_value("unknown")), "--na 'unknown'"),
    "decimal comma": (text(with_value("1,5")), "'1,5' in row 18"),
    "thousands": (text(with_value("1_000")), "'1_000'"),
    "hexadecimal": (text(with_value("0x1F")), "'0x1F'"),
    "percent": (text(with_value("15%")), "percent sign"),
    "truth value among numbers": (text(with_value("true")), "'true'"),
    "two dots": (text(with_value("1.2.3")), "'1.2.3'"),
    "unit": (text(with_value("3 mm")), "'3 mm'"),
    "infinite": (text(with_value("inf")), "row 18"),
    "minus infinite": (text(with_value("-Infinity")), "row 18"),
    "overflow": (text(with_value("1e999")), "row 18"),
    "duplicate column": (text().replace("a,b,k", "a,a,k", 1), "'a' appears 2 times"),
    "duplicate after spaces": (text().replace("a,b,k", "a, a ,k", 1), "'a' appears 2 times"),
    "missing column": (text(GOOD[["a", "b"]]), "'k' is missing"),
    "missing columns": (text(GOOD[["a"]]), "leaves them out"),
    "extra column": (text(GOOD.assign(extra=1)), "'extra' is missing"),
    "renamed column": (text(GOOD.rename(columns={"b": "B"})), "is missing"),
    "case of a column": (text(GOOD.rename(columns={"k": "K"})), "is missing"),
    "numeric becomes text": (text(GOOD.assign(a=list("pqrs") * 10)), "'a' differs"),
    "text becomes numeric": (text(GOOD.assign(k=1.5)), "'k' differs"),
    "text becomes truth value": (text(GOOD.assign(k=True)), "'k' differs"),
    "no rows": ("a,b,k\n", "0"),
    "few rows": (text(GOOD.head(MIN_ROWS - 1)), f"{MIN_ROWS - 1}"),
    "one row": (text(GOOD.head(1)), "1"),
    "nothing at all": ("", "empty"),
    "only a newline": ("\n", "empty"),
    "only comments": ("# a\n# b\n", "empty"),
    "blank header": (",,\n1,2,x\n", "names no column"),
    "row too long": (edited(9, lambda line: line.strip() + ",9,9\n"), "row 9 has 5 values"),
    "row too short": (edited(9, lambda line: line.split(",")[0] + "\n"), "row 9 has 1 values"),
    "first row too short": (edited(1, lambda line: "1\n"), "row 1 has 1 values"),
    "first row too long": (edited(1, lambda line: "1,2,x,9\n"), "row 1 has 4 values"),
    "last row cut": (text()[: text().rstrip().rfind(",") - 6], "values"),
    "header too short": (text().replace("a,b,k", "a,b", 1), "row 1 has 3 values"),
    "header too long": (text().replace("a,b,k", "a,b,k,z", 1), "header names 4"),
    "index of pandas": (GOOD.to_csv(), "column 1 "),
    "unclosed quote": (edited(9, lambda line: '"' + line), ""),
    "html": ("<html><body>502 Bad Gateway</body></html>\n", ""),
    "json": (json.dumps({"a": [1, 2]}), ""),
    "control characters": ("\x00\x01\x02", ""),
    "vcf": ("##fileformat=VCFv4\n", "bcftools query"),
    "not UTF-8": (text(with_value("é", "k")).encode("latin1"), "not UTF-8"),
    "gzip under a plain name": (gzip.compress(text().encode()), "gzip"),
    "binary": (bytes(range(256)) * 20, ""),
    "a Parquet file": (b"PAR1" + bytes(100) + b"PAR1", ""),
}


def assert_refused(result, *outputs) -> None:
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("punoise: error: ")
    assert result.out == b""
    for output in outputs:
        assert not output.exists()


def stored(content: str | bytes, suffix: str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    if suffix == "tsv" and isinstance(content, str):
        raw = raw.replace(b",", b"\t")
    return gzip.compress(raw) if suffix.endswith(".gz") else raw


@pytest.mark.parametrize(
    ("side", "suffix"),
    [("labeled", "csv"), ("unlabeled", "csv"), ("labeled", "tsv"), ("unlabeled", "csv.gz")],
)
@pytest.mark.parametrize("case", TABLES)
def test_malformed_table(case, side, suffix, tmp_path, punoise):
    content, message = TABLES[case]
    for name in ("labeled", "unlabeled"):
        wrong = content if name == side else text()
        (tmp_path / f"{name}.{suffix}").write_bytes(stored(wrong, suffix))
    out = tmp_path / "prior.json"
    result = punoise(
        *("estimate-prior", "--classifier", "logistic", "--out", out),
        *("--labeled", tmp_path / f"labeled.{suffix}"),
        *("--unlabeled", tmp_path / f"unlabeled.{suffix}"),
        expect=3,
    )
    assert_refused(result, out)
    if suffix == "csv":
        assert message in result.err


def scores_text(**columns) -> str:
    frame = pd.DataFrame(
        {
            "id": range(N),
            "set": ["labeled", "unlabeled"] * (N // 2),
            "score": np.linspace(0, 1, N),
        }
    )
    return frame.assign(**columns).to_csv(index=False)


SCORES = {
    "no set": (scores_text().replace(",set,", ",sets,"), "'set'"),
    "no id": (re.sub(r"^\w+,", "", scores_text(), flags=re.M), "'id'"),
    "no score": (scores_text().replace("score", "points"), "'score'"),
    "odd set": (scores_text(set=["labeled", "maybe"] * 20), "'maybe' in row 2"),
    "missing set": (scores_text(set=["labeled", None] * 20), "row 2"),
    "few scores": (scores_text(score=[0.5, None] * 20), "0 unlabeled rows"),
    "text score": (scores_text(score=[0.5] * 39 + ["high"]), "'high' in row 40"),
    "infinite score": (scores_text(score=[0.5] * 39 + ["inf"]), "row 40"),
    "one set only": (scores_text(set="labeled"), "0 unlabeled rows"),
    "few labeled": (scores_text(set=["labeled"] * 19 + ["unlabeled"] * 21), "19 labeled rows"),
    "empty": ("", "empty"),
}


@pytest.mark.parametrize("command", ["estimate-prior", "posterior"])
@pytest.mark.parametrize("case", SCORES)
def test_malformed_scores(case, command, tmp_path, punoise):
    content, message = SCORES[case]
    (tmp_path / "scores.csv").write_text(content)
    out = tmp_path / "out.csv"
    extra = ["--alpha", "0.2"] if command == "posterior" else []
    scores = tmp_path / "scores.csv"
    result = punoise(command, "--scores", scores, "--out", out, *extra, expect=3)
    assert_refused(result, out)
    assert message in result.err


def prior_text(**values) -> str:
    failed = failed_prior("auto", 0, InputError("few rows"), None).to_json()
    return json.dumps({**failed, **values})


PRIORS = {
    "not JSON": ("alpha = 0.2", 3, "JSON"),
    "empty": ("", 3, "JSON"),
    "too deep": ("[" * 100_000, 3, "JSON"),
    "a list": ("[1]", 3, "punoise.prior/1"),
    "another schema": ('{"schema": "x/1", "alpha": 0.1}', 3, "punoise.prior/1"),
    "text for alpha": (prior_text(alpha="x"), 3, "alpha"),
    "alpha above 1": (prior_text(alpha=2), 3, "alpha"),
    "no estimate": (prior_text(), 4, "few rows"),
    "no estimate, no reason": (prior_text(warnings=[]), 4, "no reason given"),
    "odd warnings": (prior_text(warnings=[1]), 3, "punoise.prior/1"),
}


@pytest.mark.parametrize("case", PRIORS)
def test_malformed_prior(case, tmp_path, punoise, scores):
    content, code, message = PRIORS[case]
    (tmp_path / "prior.json").write_text(content)
    out = tmp_path / "out.tsv"
    options = ("--scores", scores, "--prior", tmp_path / "prior.json", "--out", out)
    result = punoise("posterior", *options, expect=code)
    assert_refused(result, out)
    assert message in result.err


def broken_model(header: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8))
    return file.getvalue()


def pickled_model() -> bytes:
    file = io.BytesIO()
    np.savez(file, header=np.array([{}], dtype=object))
    return file.getvalue()


MODELS = {
    "empty": b"",
    "text": b"hello",
    "zip without a header": broken_model({}),
    "a header that is no object": broken_model([1]),
    "another version": broken_model({"format": "punoise.model/99"}),
    "nothing but a version": broken_model({"format": "punoise.model/1"}),
    "a pickle": pickled_model(),
}


@pytest.mark.parametrize("case", MODELS)
def test_malformed_model(case, tmp_path, punoise):
    (tmp_path / "m.punoise").write_bytes(MODELS[case])
    (tmp_path / "t.csv").write_text(text())
    out = tmp_path / "out.csv"
    options = ("--model", tmp_path / "m.punoise", "--table", tmp_path / "t.csv", "--out", out)
    assert_refused(punoise("score", *options, expect=3), out)


PAIR = ["--labeled", "{good}", "--unlabeled", "{good}"]
SCORES_TWICE = ["--scores", "{scores}", "--out", "{scores}"]
SCORES_OUT = ["--scores", "{scores}", "--out", "-"]
SCORE_AND_FEATURES = ["--score-column", "a", "--features", "b"]
USAGE = {
    "no command": ["nothing"],
    "no input": ["estimate-prior", "--seed", "1"],
    "half a pair": ["estimate-prior", "--labeled", "{good}"],
    "missing file": ["estimate-prior", "--labeled", "{good}", "--unlabeled", "none.csv"],
    "missing glob": ["estimate-prior", "--labeled", "{good}", "--unlabeled", "none*.csv"],
    "unknown format": ["estimate-prior", "--labeled", "{good}", "--unlabeled", "{odd}"],
    "both tables from stdin": ["estimate-prior", "--labeled", "-", "--unlabeled", "-"],
    "scores and tables": ["estimate-prior", "--scores", "{good}", *PAIR],
    "a table without labels": ["estimate-prior", "--table", "{good}"],
    "a label without a table": ["estimate-prior", *PAIR, "--label-column", "k"],
    "table and pair": ["estimate-prior", "--table", "{good}", "--label-column", "k", *PAIR],
    "unknown method": ["estimate-prior", *PAIR, "--method", "magic"],
    "unknown classifier": ["estimate-prior", *PAIR, "--classifier", "magic"],
    "unknown option": ["estimate-prior", *PAIR, "--magic"],
    "beta above 1": ["estimate-prior", *PAIR, "--beta", "1.2"],
    "beta is no number": ["estimate-prior", *PAIR, "--beta", "high"],
    "negative seed": ["estimate-prior", *PAIR, "--seed", "-1"],
    "no threads": ["estimate-prior", *PAIR, "--threads", "0"],
    "feature method on scores": ["estimate-prior", "--scores", "{scores}", "--method", "msgmm-pca"],
    "output in no directory": ["estimate-prior", *PAIR, "--out", "none/prior.json"],
    "output is a directory": ["estimate-prior", *PAIR, "--out", "{dir}"],
    "scores in no format": ["transform", *PAIR, "--out", "{dir}/scores.xls"],
    "model in no directory": ["transform", *PAIR, "--out", "-", "--model-out", "none/model"],
    "no output": ["transform", *PAIR],
    "score column and features": ["transform", *PAIR, "--out", "-", *SCORE_AND_FEATURES],
    "several columns, no transform": ["transform", *PAIR, "--out", "-", "--no-transform"],
    "sign of a transform": ["transform", *PAIR, "--out", "-", "--lower-is-positive"],
    "feature and id": ["transform", *PAIR, "--out", "-", "--features", "a", "--id-column", "a"],
    "no prior": ["posterior", *SCORES_OUT],
    "two priors": ["posterior", *SCORES_OUT, "--prior", "p", "--alpha", "0.1"],
    "alpha above beta": ["posterior", *SCORES_OUT, "--alpha", "0.5", "--beta", "0.4"],
    "alpha is nan": ["posterior", *SCORES_OUT, "--alpha", "nan"],
    "target is nan": ["posterior", *SCORES_OUT, "--alpha", "0.2", "--target-alpha", "nan"],
    "target is 1": ["posterior", *SCORES_OUT, "--alpha", "0.2", "--target-alpha", "1"],
    "scores and a sign": ["estimate-prior", "--scores", "{scores}", "--lower-is-positive"],
    "scores and columns": ["estimate-prior", "--scores", "{scores}", "--id-column", "id"],
    "output is an input": ["posterior", "--alpha", "0.2", *SCORES_TWICE],
    "two outputs in one": ["transform", *PAIR, "--out", "x.tsv", "--model-out", "x.tsv"],
    "missing prior": ["posterior", *SCORES_OUT, "--prior", "none"],
    "missing model": ["score", "--model", "none", "--table", "{good}", "--out", "-"],
    "directory is a file": ["simulate", "--out-dir", "{good}"],
    "unknown document": ["help", "posterior.json"],
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage(case, tmp_path, punoise, scores):
    (tmp_path / "good.csv").write_text(text())
    (tmp_path / "odd.dat").write_text(text())
    (tmp_path / "empty").mkdir()
    places = {
        "good": tmp_path / "good.csv",
        "odd": tmp_path / "odd.dat",
        "dir": tmp_path / "empty",
        "scores": scores,
    }
    args = [arg.format(**places) for arg in USAGE[case]]
    assert_refused(punoise(*args, expect=2))
    assert not any((tmp_path / "empty").iterdir())


COLUMNS = {
    "unknown id": ["--id-column", "zz"],
    "unknown group": ["--group-column", "zz"],
    "unknown feature": ["--features", "a,zz"],
    "unknown drop": ["--drop-columns", "zz"],
    "unknown category": ["--categorical", "zz"],
    "unknown score": ["--score-column", "zz"],
    "text as a score": ["--score-column", "t"],
    "nothing left": ["--drop-columns", "a,b,k,g,t"],
    "group without a name": ["--group-column", "g"],
    "score with a gap": ["--score-column", "g"],
}


@pytest.mark.parametrize("case", COLUMNS)
def test_wrong_columns(case, tmp_path, punoise):
    frame = GOOD.assign(g=[None, *range(1, N)], t=["one", "two"] * (N // 2))
    files = [tmp_path / name for name in ("t.csv", "u.csv")]
    for file in files:
        frame.to_csv(file, index=False)
    out = tmp_path / "out.tsv"
    pair = ("--labeled", files[0], "--unlabeled", files[1])
    result = punoise("transform", *pair, "--out", out, *COLUMNS[case], expect=3)
    assert_refused(result, out)
    assert "zz" in result.err or "zz" not in COLUMNS[case][1]


def test_labels_are_never_guessed(tmp_path, punoise):
    frame = GOOD.assign(s=["1", "0", "1", "0", "maybe"] * (N // 5))
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = punoise(
        "estimate-prior", "--table", tmp_path / "t.csv", "--label-column", "s", expect=3
    )
    assert_refused(result)
    assert "'maybe' in row 5" in result.err
