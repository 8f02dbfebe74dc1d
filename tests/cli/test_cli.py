"""The commands end to end: chaining, determinism, streams, exit codes, what is written where."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import validated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pu_noise_cli import __version__
from pu_noise_cli.score.scores import open_scores
from pu_noise_cli.tables.simulate import simulate

FAST = ("--classifier", "logistic")


def read_any(path) -> pd.DataFrame:
    name = str(path)
    if name.endswith(".parquet"):
        return pq.read_table(name).to_pandas()
    return pd.read_csv(name, sep="\t" if ".tsv" in name else ",", dtype={"id": str})


def test_estimate_prior_prints_json_and_nothing_else(punoise, tables):
    result = punoise("estimate-prior", *tables, *FAST)
    prior = result.prior
    assert 0 < prior["alpha"] < prior["beta"] <= 1
    assert prior["alpha_ci"][0] <= prior["alpha"] <= prior["alpha_ci"][1]
    assert (prior["n_labeled"], prior["n_unlabeled"]) == (150, 400)
    assert "alpha  " in result.err
    assert "beta   " in result.err


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_three_commands_write_what_run_writes(form, punoise, tables, tmp_path):
    punoise("run", *tables, *FAST, "--out-dir", tmp_path / "run", "--format", form)
    scores, prior, posterior = (tmp_path / name for name in (f"s.{form}", "p.json", f"q.{form}"))
    punoise("transform", *tables, *FAST, "--out", scores)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    punoise("posterior", "--scores", scores, "--prior", prior, "--out", posterior)
    for ours, name in (
        (scores, f"scores.{form}"),
        (prior, "prior.json"),
        (posterior, f"posterior.{form}"),
    ):
        assert ours.read_bytes() == (tmp_path / "run" / name).read_bytes(), name
    assert sorted(os.listdir(tmp_path / "run")) == sorted(
        [
            *(f"scores.{form}", "prior.json", f"posterior.{form}", "model.punoise"),
            *("report.html", "provenance.json"),
            *("candidates.tsv", "labels_to_check.tsv", "columns.tsv"),
        ]
    )
    validated(json.loads(prior.read_text()))


def test_estimating_from_tables_is_estimating_from_their_scores(punoise, tables, tmp_path):
    direct = punoise("estimate-prior", *tables, *FAST).out
    punoise("transform", *tables, *FAST, "--out", tmp_path / "s.tsv")
    assert punoise("estimate-prior", "--scores", tmp_path / "s.tsv").out == direct


def test_same_bytes_for_any_number_of_threads(punoise, tables, tmp_path):
    for threads in (1, 2):
        punoise(
            *("run", *tables, "--classifier", "networks", "--format", "tsv"),
            *("--threads", threads, "--out-dir", tmp_path / str(threads)),
        )
    for name in ("scores.tsv", "prior.json", "posterior.tsv", "model.punoise"):
        one, two = ((tmp_path / threads / name).read_bytes() for threads in ("1", "2"))
        assert one == two, name


def test_seeds_differ(punoise, tables):
    one, two = (punoise("estimate-prior", *tables, *FAST, "--seed", s).prior for s in (1, 2))
    assert one["alpha_ci"] != two["alpha_ci"]


def write_table(frame: pd.DataFrame, path) -> None:
    """A table as pandas writes it, in the format of its name."""
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(frame.to_csv(index=False, sep="\t").encode())
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def test_the_format_of_the_tables_changes_nothing(punoise, frames, tmp_path):
    """Numbers, categories, truth values and gaps, in every format and with columns in any order."""
    found = {}
    for suffix in ("csv", "tsv.zst", "parquet"):
        for frame, name in zip(frames, ("l", "u"), strict=True):
            n = len(frame)
            frame = frame.assign(
                k=np.array(["p", "q", None], object)[np.arange(n) % 3],
                t=np.arange(n) % 2 == 0,
                i=np.arange(n) % 7,
                a=frame["a"].where(np.arange(n) % 11 > 0),
            )
            order = frame.columns if name == "l" else frame.columns[::-1]
            write_table(frame[order], tmp_path / f"{name}.{suffix}")
        pair = ("--labeled", tmp_path / f"l.{suffix}", "--unlabeled", tmp_path / f"u.{suffix}")
        out = tmp_path / suffix
        punoise("run", *pair, *FAST, "--out-dir", out)
        found[suffix] = [(out / n).read_bytes() for n in ("prior.json", "posterior.parquet")]
    assert all(files == found["csv"] for files in found.values())


def test_a_combined_table_is_the_two_in_its_own_order(punoise, frames, tables, tmp_path):
    labeled, unlabeled = frames
    both = pd.concat([labeled.assign(s="yes"), unlabeled.assign(s="no")])
    order = np.argsort(np.random.default_rng(0).random(len(both)), kind="stable")
    both = both.assign(name=[f"r{i}" for i in range(len(both))]).iloc[order]
    both.to_csv(tmp_path / "both.csv", index=False)
    punoise(
        *("transform", "--table", tmp_path / "both.csv", "--label-column", "s", *FAST),
        *("--id-column", "name", "--out", tmp_path / "s.tsv"),
    )
    scores = read_any(tmp_path / "s.tsv")
    assert scores["id"].tolist() == both["name"].tolist()
    assert (scores["set"] == "labeled").tolist() == (both["s"] == "yes").tolist()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), max_size=5), st.booleans(), st.floats(-9, 9)
        ),
        max_size=30,
    ),
    st.sampled_from(["tsv", "csv.gz", "parquet"]),
)
def test_every_row_comes_out_once_in_order(punoise, tmp_path, drawn, suffix):
    """Any ids, labels and scores, after enough plain rows to be a valid table."""
    drawn = [("plain", i % 2 == 0, 0.5) for i in range(60)] + drawn
    ids, labeled, scores = (list(column) for column in zip(*drawn, strict=True))
    frame = pa.table({"name": ids, "s": labeled, "x": scores})
    pq.write_table(frame, tmp_path / "in.parquet")
    out = tmp_path / f"out.{suffix}"
    punoise(
        *("transform", "--table", tmp_path / "in.parquet", "--label-column", "s"),
        *("--id-column", "name", "--score-column", "x", "--out", out),
    )
    (table,) = open_scores(str(out)).tables
    found = pa.Table.from_batches(b.rows for b in table.batches(["id", "set", "score"]))
    assert found["id"].to_pylist() == ids
    assert [word == "labeled" for word in found["set"].to_pylist()] == labeled
    assert [float(score) for score in found["score"].to_pylist()] == scores


def test_posterior_is_a_probability_that_averages_to_alpha(results):
    prior = validated(json.loads((results / "prior.json").read_text()))
    table = read_any(results / "posterior.parquet")
    unlabeled = table[table["set"] == "unlabeled"]
    assert unlabeled["posterior"].mean() == pytest.approx(prior["alpha"], abs=0.005)
    assert table["posterior"].between(0, 1).all()
    ordered = table.sort_values("score")
    assert (np.diff(ordered["posterior"]) >= 0).all()
    assert (np.diff(ordered["tau"]) >= 0).all()
    assert unlabeled["posterior_labeled"].isna().all()
    labeled = table[table["set"] == "labeled"]
    assert labeled["posterior_labeled"].mean() == pytest.approx(prior["beta"], abs=0.005)
    certain = table["posterior"] == 1
    assert np.isinf(table.loc[certain, "lr"]).all()


def test_one_numeric_column_is_the_score(punoise, tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"cadd": rng.normal(30, 5, 200)}).to_csv(tmp_path / "l.csv", index=False)
    mixed = np.concatenate([rng.normal(30, 5, 100), rng.normal(10, 5, 300)])
    pd.DataFrame({"cadd": mixed}).to_csv(tmp_path / "u.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    result = punoise("estimate-prior", *pair)
    assert result.prior["alpha"] == pytest.approx(0.25, abs=0.08)
    assert "'cadd'" in result.err
    (tmp_path / "r.csv").write_text("")
    for name in ("l", "u"):
        frame = pd.read_csv(tmp_path / f"{name}.csv")
        (-frame).assign(other=1.0).to_csv(tmp_path / f"{name}r.csv", index=False)
    reversed_pair = ("--labeled", tmp_path / "lr.csv", "--unlabeled", tmp_path / "ur.csv")
    options = ("--score-column", "cadd", "--lower-is-positive")
    assert punoise("estimate-prior", *reversed_pair, *options).out == result.out
    wrong = punoise("estimate-prior", *reversed_pair, "--score-column", "cadd").prior
    assert "reversed-scores" in [w["code"] for w in wrong["warnings"]]


def test_score_gives_new_rows_a_score(punoise, tables, frames, tmp_path):
    model = tmp_path / "m.punoise"
    punoise("transform", *tables, *FAST, "--out", tmp_path / "s.csv", "--model-out", model)
    new = frames[1].head(30).assign(extra="x", name=[f"{i:03}" for i in range(30)])
    new[new.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)
    table = ("--table", tmp_path / "new.csv", "--id-column", "name")
    result = punoise("score", "--model", model, *table, "--out", tmp_path / "new_scores.tsv")
    assert "left out: extra" in result.err
    scores = read_any(tmp_path / "new_scores.tsv")
    assert list(scores.columns) == ["id", "score"]
    assert scores["id"].tolist() == new["name"].tolist()
    assert scores["score"].between(0, 1).all()
    frames[1].drop(columns="b").to_csv(tmp_path / "new.csv", index=False)
    result = punoise(
        "score", "--model", model, "--table", tmp_path / "new.csv", "--out", "-", expect=3
    )
    assert "'b'" in result.err


def test_score_warns_of_training_rows(punoise, tables, frames, tmp_path):
    model = tmp_path / "m.punoise"
    punoise("transform", *tables, *FAST, "--out", tmp_path / "s.csv", "--model-out", model)
    new = frames[1] * 1.01
    new.to_csv(tmp_path / "new.csv", index=False)
    score = ("score", "--model", model, "--out", tmp_path / "t.tsv", "--table")
    assert "training-rows-scored" not in punoise(*score, tmp_path / "new.csv").err
    pd.concat([new, frames[1].tail(20)]).to_parquet(tmp_path / "new.parquet")
    found = punoise(*score, tmp_path / "new.parquet").err
    assert "training-rows-scored" in found
    assert "20 rows" in found


def test_one_table_in_both_parts_is_two_tables(punoise, tables, tmp_path):
    shutil.copy(tables[1], tmp_path / "copy.csv")
    same = ("--labeled", tables[1], "--unlabeled", tmp_path / "copy.csv", *FAST)
    punoise("transform", *same, "--out", tmp_path / "s.tsv")
    scores = read_any(tmp_path / "s.tsv")
    labeled, unlabeled = (scores.loc[scores["set"] == s, "score"] for s in ("labeled", "unlabeled"))
    assert len(labeled) == len(unlabeled) == 150
    assert labeled.tolist() != unlabeled.tolist()


def test_a_run_leaves_nothing_of_an_earlier_one(punoise, tables, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", out)
    punoise("run", *tables, *FAST, "--out-dir", out, "--format", "tsv")
    assert not list(out.glob("*.parquet"))
    (tmp_path / "few.csv").write_text("a,b,c\n" + "1,2,3\n" * 5)
    few = ("--labeled", tmp_path / "few.csv", "--unlabeled", tables[3])
    punoise("run", *few, *FAST, "--out-dir", out, "--on-failure", "write")
    assert {path.name for path in out.iterdir()} == {"prior.json", "provenance.json"}
    assert json.loads((out / "prior.json").read_text())["alpha"] is None


def test_warnings_of_the_transform_are_strict_too(punoise, frames, tmp_path):
    for frame, name in zip(frames, "lu", strict=True):
        ids = [f"{name}{i}" for i in range(len(frame))]
        frame.assign(name=ids).to_csv(tmp_path / f"{name}.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv", *FAST)
    for command in (["estimate-prior"], ["transform", "--out", tmp_path / "s.tsv"]):
        result = punoise(*command, *pair, "--strict", expect=4)
        assert "identifier-like-column" in result.err


def test_a_known_beta_is_kept(punoise, scores):
    prior = punoise("estimate-prior", "--scores", scores, "--beta", "0.99").prior
    assert prior["beta"] == 0.99


def test_an_own_prior(punoise, scores, tmp_path):
    out = tmp_path / "p.csv.gz"
    punoise("posterior", "--scores", scores, "--alpha", 0.0441, "--beta", 0.99, "--out", out)
    with gzip.open(out) as file:
        assert len(file.readlines()) == 401


def test_a_failure_can_be_written(punoise, tmp_path):
    for name in ("few.csv", "others.csv"):
        (tmp_path / name).write_text("a\n" + "1\n" * 5)
    pair = ("--labeled", tmp_path / "few.csv", "--unlabeled", tmp_path / "others.csv")
    options = ("--on-failure", "write", "--sample", "S1")
    prior = punoise("estimate-prior", *pair, *options).prior
    assert (prior["alpha"], prior["beta"], prior["sample"]) == (None, None, "S1")
    assert prior["warnings"][0]["code"] == "bad-input"
    assert "5 labeled rows" in prior["warnings"][0]["message"]
    punoise("run", *pair, *options, "--out-dir", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "prior.json").read_text()) == prior


def test_strict_turns_a_warning_into_exit_4_after_writing(punoise, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("l", "u"):
        pd.DataFrame({"a": rng.random(50)}).to_csv(tmp_path / f"{name}.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    out = tmp_path / "p.json"
    result = punoise("estimate-prior", *pair, "--strict", "--out", out, expect=4)
    assert "few-rows" in result.err
    assert validated(json.loads(out.read_text()))["warnings"]


def test_run_can_be_repeated_and_fails_without_touching_its_files(punoise, tables, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", out)
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    punoise("run", *tables, *FAST, "--out-dir", out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    first.pop("provenance.json")  # how long it took
    assert first.items() <= before.items()
    punoise("run", *tables, *FAST, "--out-dir", out, "--drop-columns", "none", expect=3)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_provenance_tells_of_columns_and_options(results):
    provenance = json.loads((results / "provenance.json").read_text())
    assert provenance["columns"][0] == {
        "column": "a",
        "table": str(results.parent / "labeled.csv"),
        "kind": "number",
        "values": 150,
        "missing": 0,
        "levels": None,
    }
    assert provenance["options"]["classifier"] == "logistic"


def test_simulated_tables_have_the_shares_asked_for(punoise, tmp_path):
    options = ("--alpha", 0.3, "--beta", 0.8, "--n-labeled", 50, "--n-unlabeled", 200)
    punoise("simulate", "--out-dir", tmp_path / "s", *options, "--n-features", 4)
    truth = pd.read_csv(tmp_path / "s" / "truth.csv")
    assert truth.groupby("set")["y"].mean().to_dict() == {"labeled": 0.8, "unlabeled": 0.3}
    assert pd.read_csv(tmp_path / "s" / "labeled.csv").shape == (50, 4)
    assert pd.read_csv(tmp_path / "s" / "unlabeled.csv").shape == (200, 4)


def test_selection_labels_kinds_of_positives_unequally():
    drawn = simulate(0.5, 1.0, 4000, 4000, 3, seed=0, selection=16)
    plain = simulate(0.5, 1.0, 4000, 4000, 3, seed=0)
    apart = [
        np.linalg.norm(s.labeled.mean(0) - s.unlabeled[s.unlabeled_y].mean(0))
        for s in (drawn, plain)
    ]
    assert drawn.unlabeled_y.mean() == 0.5
    assert apart[0] > 1 > 0.1 > apart[1]


def test_schema_is_printed(punoise):
    assert json.loads(punoise("help", "prior.json").out)["$id"] == "punoise.prior/1"


def test_quiet_says_nothing(punoise, tables, tmp_path):
    result = punoise("run", "-q", *tables, *FAST, "--out-dir", tmp_path / "out")
    assert (result.out, result.err) == (b"", "")


# ---- as separate processes, where signals, pipes and start-up are the point

COMMAND = [sys.executable, "-m", "pu_noise_cli"]


@pytest.mark.parametrize("command", ["estimate-prior -q", "help prior.json"])
def test_a_full_disk_is_said_in_a_line(command, scores):
    options = ["--scores", scores] if command.startswith("estimate") else []
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *command.split(), *options], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 5
    assert done.stderr.startswith(b"punoise: error: -: cannot be written: No space left")


@pytest.mark.ci
def test_standard_streams_and_pipes(tables, tmp_path):
    script = (
        'p() { "$PYTHON" -m pu_noise_cli "$@"; }; set -e -o pipefail; '
        'p transform --labeled "$1" --unlabeled <(cat "$2") --classifier logistic --out - '
        '| tee "$3/scores.tsv" | p estimate-prior --scores - --out "$3/prior.json"; '
        'p posterior --scores - --prior "$3/prior.json" --out - < "$3/scores.tsv" | wc -l; '
        'q() { p posterior --scores /dev/stdin --alpha 0.2 --out "$1" < scores.tsv; }; cd "$3"; '
        "q >(wc -l > count); set +o pipefail; q /dev/stdout | head -1"
    )
    done = subprocess.run(
        ["bash", "-c", script, "-", tables[1], tables[3], str(tmp_path)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    count, header = done.stdout.splitlines()
    assert int(count) == 551
    assert header.split("\t")[:3] == ["id", "set", "score"]
    assert "rror" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("sent", "code", "left"),
    [(signal.SIGKILL, -9, 1), (signal.SIGTERM, 143, 0), (signal.SIGINT, 130, 0)],
)
def test_a_stopped_write_leaves_the_old_file_whole(sent, code, left, tmp_path):
    target = tmp_path / "scores.tsv"
    target.write_text("old")
    program = (
        "import signal, sys, time; from pu_noise_cli.cli import process\n"
        "from pu_noise_cli.tables.writing import write_atomically\n"
        # a job in the background is started without
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(**_):\n"
        "    with write_atomically(sys.argv[-1]) as file:\n"
        "        file.write(b'half'); file.flush(); print('writing', flush=True); time.sleep(60)\n"
        "process.cli.get_command(None, 'simulate').callback = slow\n"
        "sys.argv[1:] = ['simulate', '--out-dir', sys.argv[-1]]\n"
        "process.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(target)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.1)
    process.send_signal(sent)
    assert process.wait(20) == code
    process.stdout.close()
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1 + left


def test_a_bug_shows_its_traceback_and_exits_with_1():
    program = (
        "from pu_noise_cli.cli import process\n"
        "def bug(**_): raise ZeroDivisionError\n"
        "process.cli.get_command(None, 'help').callback = bug\n"
        "import sys; sys.argv = ['punoise', 'help', 'prior.json']; process.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_version_is_a_bare_number():
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize("words", [["--version"], ["-h"], ["run", "-h"]])
def test_help_loads_no_numbers(words):
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert not {"numpy", "pyarrow", "scipy", "jinja2", "msgspec"} & loaded


@pytest.fixture
def leaking(frames, tmp_path) -> tuple[object, ...]:
    """Options that name tables of which one column gives the label away."""
    labeled, unlabeled = frames
    labeled.assign(batch=1.0).to_csv(tmp_path / "l.csv", index=False)
    unlabeled.assign(batch=2.0).to_csv(tmp_path / "u.csv", index=False)
    return ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv", *FAST)


def test_warnings_are_the_same_whichever_way_the_prior_was_made(punoise, leaking, tmp_path):
    """By run, from tables, and from Parquet scores; each is printed once."""
    printed = [
        punoise("run", *leaking, "--out-dir", tmp_path / "run").err,
        punoise("estimate-prior", *leaking, "--out", tmp_path / "tables.json").err,
    ]
    scores = tmp_path / "run" / "scores.parquet"
    printed.append(punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "s.json").err)
    documents = [tmp_path / "run" / "prior.json", tmp_path / "tables.json", tmp_path / "s.json"]
    found = [json.loads(path.read_text())["warnings"] for path in documents]
    assert "leaking-column" in [warning["code"] for warning in found[0]]
    assert found[0] == found[1]
    assert {w["code"] for w in found[2]} == {w["code"] for w in found[0]}
    for text in printed:
        assert text.count("[leaking-column]") == 1


def test_verbose_tells_the_stages_and_provenance_keeps_them(punoise, tables, tmp_path):
    stages = ["read", "labeled", "overlap", "sample", "train", "score", "estimate", "posterior"]
    result = punoise("run", *tables, *FAST, "--out-dir", tmp_path / "out", "-v")
    assert [line.split()[1] for line in result.err.splitlines() if " took " in line] == stages
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert list(provenance["execution"]["seconds"]) == stages
    assert "threads" in provenance["execution"]
    assert "threads" not in provenance["options"]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("transform", ("--score-column", "a", "--group-column", "b")),
        ("transform", ("--score-column", "a", "--classifier", "networks")),
        ("estimate-prior", ("--score-column", "a", "--max-train-rows", "500")),
        ("estimate-prior", ("--features", "a", "--classifier", "logistic")),
        ("estimate-prior", ("--method", "bound", "--purity", "0.5")),
        ("estimate-prior", ("--method", "msgmm", "--alpha-between", "0.1", "0.3")),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(command, options, punoise, tables):
    result = punoise(command, *tables, *options, "--out", "-", expect=2)
    assert re.search("nothing|applies only to", result.err)
    assert any(option in result.err for option in options if option.startswith("--"))


@pytest.mark.parametrize(
    "options",
    [
        ("--alpha-between", "0.5", "0.1"),
        ("--beta-between", "0.9", "0.8"),
        ("--beta", "0.9", "--beta-between", "0.8", "1"),
        ("--alpha-between", "0.6", "0.9", "--beta-between", "0.1", "0.5"),
        ("--alpha-between", "0.95", "1", "--beta", "0.9"),
        ("--purity", "1.5"),
    ],
)
def test_what_cannot_be_known_is_refused(options, punoise, scores):
    punoise("estimate-prior", "--scores", scores, *options, expect=2)


def test_the_same_table_twice_tells_nothing(punoise, tables, tmp_path):
    same = ("--labeled", tables[3], "--unlabeled", tables[3], *FAST)
    said = punoise("estimate-prior", *same)
    assert "indistinguishable" in [warning["code"] for warning in said.prior["warnings"]]
    assert (said.prior["alpha"], said.prior["beta_ci"]) == (None, None)
    assert not re.search(r"^alpha .*\d", said.err, re.MULTILINE)
    out = tmp_path / "results"
    punoise("run", *tables, *FAST, "--out-dir", out)
    assert (out / "report.html").exists()
    before = sorted(path.name for path in out.iterdir())
    punoise("run", *same, "--out-dir", out, expect=4)
    assert sorted(path.name for path in out.iterdir()) == before, "nothing is lost"
    punoise("run", *same, "--out-dir", out, "--on-failure", "write")
    assert json.loads((out / "prior.json").read_text())["alpha"] is None
    assert not (out / "report.html").exists()


def test_labels_of_negatives_only_tell_nothing(punoise, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(2000) < 600
    pd.DataFrame({"x": rng.normal(size=300)}).to_csv(tmp_path / "l.csv", index=False)
    pd.DataFrame({"x": rng.normal(size=2000) + 2 * y}).to_csv(tmp_path / "u.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    prior = punoise("estimate-prior", *pair).prior
    codes = [warning["code"] for warning in prior["warnings"]]
    assert {"indistinguishable", "reversed-scores"} <= set(codes)
    assert prior["beta"] is None


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_number_can_mean_a_missing_value(form, punoise, frames, tmp_path):
    """--na -1 means -1.0, too; where no value is that, a warning says so."""
    found = {}
    for name in ("gaps", "minus one"):
        pair = []
        for frame, table in zip(frames, ("labeled", "unlabeled"), strict=True):
            gap = np.nan if name == "gaps" else -1.0
            frame = frame.assign(a=frame["a"].where(np.arange(len(frame)) % 5 > 0, gap))
            path = tmp_path / f"{table}.{form}"
            write_table(frame, path)
            pair += [f"--{table}", path]
        found[name] = punoise("estimate-prior", *pair, *FAST, "--na", "-1").prior
    assert found["gaps"]["alpha"] == found["minus one"]["alpha"]
    codes = {name: [w["code"] for w in prior["warnings"]] for name, prior in found.items()}
    assert "na-not-found" in codes["gaps"]
    assert "na-not-found" not in codes["minus one"]


def test_a_platform_without_hangups_can_start():
    program = (
        "import signal, sys; del signal.SIGHUP; from pu_noise_cli.cli import process\n"
        "sys.argv = ['punoise', '--version']; process.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_shards_of_text_are_refused_before_any_work(punoise, tables, tmp_path):
    result = punoise("run", *tables, "--out-dir", tmp_path / "out", "--shards", expect=2)
    assert "Parquet" in result.err
    assert not (tmp_path / "out").exists()
    assert "With Parquet inputs" in punoise("run", "--help").out.decode()


def test_a_run_that_fails_leaves_no_new_directory(punoise, tables, tmp_path):
    (tmp_path / "labeled.csv").write_text("a,b,c\n1,2,3\n")
    punoise("run", *tables, "--out-dir", tmp_path / "new", expect=3)
    assert not (tmp_path / "new").exists()
    options = ("--on-failure", "write", "--strict")
    punoise("run", *tables, "--out-dir", tmp_path / "new", *options, expect=4)
    assert (tmp_path / "new" / "prior.json").exists()
