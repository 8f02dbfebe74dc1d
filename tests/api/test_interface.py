"""The Python interface gives what the commands give."""

import dataclasses
import doctest
import importlib.util
import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import small_frames, validated

import pu_noise_cli as punoise_api
from pu_noise_cli import api, classifier
from pu_noise_cli.audit.verdicts import STRATA
from pu_noise_cli.errors import EstimationError, InputError, UsageError
from pu_noise_cli.options import definitions
from pu_noise_cli.settings import Analysis, Names, Process, RunSettings

GUIDE = Path(__file__).parents[2] / "docs" / "python.md"
NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
FAST = {"classifier": "logistic"}
MYPY_CACHE = Path(__file__).parents[2] / ".mypy_cache" / "callers"


def as_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


LIBRARIES = {
    "pandas": lambda _, frame: frame,
    "polars": lambda polars, frame: polars.from_pandas(frame),
    "pyarrow": lambda _, frame: as_arrow(frame),
    "duckdb": lambda duckdb, frame: duckdb.from_arrow(as_arrow(frame)),
}


def frame_of(library: str, frame: pd.DataFrame) -> object:
    return LIBRARIES[library](importlib.import_module(library), frame)


def as_pandas(frame: object) -> pd.DataFrame:
    """A frame of any library."""
    if isinstance(frame, pd.DataFrame):
        return frame.reset_index(drop=True)
    if isinstance(frame, pa.Table):
        return frame.to_pandas()
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame.df()


def assert_same_rows(ours: object, theirs: pd.DataFrame) -> None:
    frame = as_pandas(ours)
    assert len(frame.columns) > 4
    pd.testing.assert_frame_equal(frame, theirs[frame.columns].reset_index(drop=True))


def assert_results_of(found: punoise_api.Estimated, folder: Path) -> None:
    """Everything that the interface gives is what `run` wrote."""
    assert found.prior == json.loads((folder / "prior.json").read_text())
    written = pd.read_parquet(folder / "posterior.parquet")
    sets = {"labeled": found.labeled, "unlabeled": found.unlabeled, "negative": found.negatives}
    for name, ours in sets.items():
        if (written["set"] == name).any():
            assert_same_rows(ours, written[written["set"] == name])
    if found.groups is not None:
        theirs = pd.read_parquet(folder / "groups.parquet").set_index("group")
        ours = found.groups if isinstance(found.groups, pd.DataFrame) else None
        ours = as_pandas(found.groups).set_index("group") if ours is None else ours
        pd.testing.assert_frame_equal(ours, theirs)
    assert (found.groups is None) == (not (folder / "groups.parquet").exists())
    for name, ours in (
        ("candidates", found.candidates(10_000)),
        ("labels_to_check", found.labels_to_check(10_000)),
    ):
        theirs, ours = pd.read_csv(folder / f"{name}.tsv", sep="\t"), as_pandas(ours)
        assert ours["score"].tolist() == pytest.approx(theirs["score"].tolist())


# ---- The same numbers, for every option and every kind of table

# columns of the tables beside the features a, b, c
FURTHER = ("name", "gene", "note", "known")
CLASSES = {"table": True, "label_column": "known", "labeled_value": ["P"]}
CASES: dict[str, dict[str, object]] = {
    "two tables": {"labeled_are": "negatives", "features": ["a", "b"], "seed": 3},
    "three tables": {
        "negatives": True,
        "id_column": ["name"],
        "keep_columns": ["note", "gene"],
        "sample": "liver",
        "threads": 2,
    },
    "four classes": {
        **CLASSES,
        "negative_value": ["B"],
        "unlabeled_value": ["U"],
        "ignore_value": ["V"],
    },
    "all others are unlabeled": {**CLASSES, "unlabeled_value": ["*"], "ignore_value": ["V", "B"]},
    "all others are ignored": {
        **CLASSES,
        "unlabeled_value": ["U"],
        "ignore_value": ["*"],
        "alpha_between": (0.1, 0.3),
    },
    "groups of training": {
        "group_column": "gene",
        "max_train_rows": 300,
        "count_overlap": True,
        "beta": 0.95,
    },
    "groups of results": {"by": "gene", "purity": 0.5},
    "categories": {"na": ["2"], "features": ["a", "b", "kind"], "categorical": ["kind"]},
    "one feature": {"transform": True, "features": ["a"], "target_alpha": 0.05},
    "reversed score": {
        "score_column": "minus_a",
        "lower_is_positive": True,
        "beta_between": (0.8, 0.95),
    },
    "missing scores": {"score_column": "gaps", "missing_score": "skip", "method": "elkan-noto"},
    "stated": {
        "drop_columns": ["a", "name", "gene", "note", "known"],
        "classifier": "logistic",
        "alpha": 0.25,
        "beta": 0.9,
    },
    "another method": {"score_column": "a", "method": "alphamax", "seed": 11},
}
NAMED = [  # DuckDB relations are read as PyArrow tables
    name for name in ("pandas", "polars", "pyarrow") if importlib.util.find_spec(name)
]
KINDS = [*(partial(frame_of, library) for library in NAMED), pd.DataFrame.to_numpy]
OF_FILES = {"input_format", "delimiter", "decimal", "sheet"}


@pytest.fixture
def wide(frames):
    """The small tables with columns for every option, and known negatives."""
    rng = np.random.default_rng(3)

    def widened(frame: pd.DataFrame, prefix: str, known: str) -> pd.DataFrame:
        n = len(frame)
        gaps = frame["a"].where(rng.random(n) > 0.1)
        return frame.assign(
            name=[f"{prefix}{i}" for i in range(n)],
            gene=[f"g{i}" for i in rng.integers(0, 12, n)],
            note="n",
            known=rng.choice([known, known, "V"], n) if known == "U" else known,
            kind=rng.integers(0, 3, n),
            minus_a=-frame["a"],
            gaps=gaps,
        )

    negatives = pd.DataFrame(rng.normal(size=(60, 3)).round(6), columns=["a", "b", "c"])
    return {
        "labeled": widened(frames[0], "l", "P"),
        "negatives": widened(negatives, "n", "B"),
        "unlabeled": widened(frames[1], "u", "U"),
    }


def shell_words(options: dict[str, object]) -> list[str]:
    """Options as the command line takes them."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if name == "na":
            words += [word for text in value for word in (flag, text)]
        elif value is False and name == "transform":
            words.append("--no-transform")
        elif isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, tuple):
            words += [flag, *map(str, value)]
        else:
            words += [flag, ",".join(value) if isinstance(value, list) else str(value)]
    return words


def option_fields(settings: type) -> Iterator[tuple[str, object, object]]:
    """The name, type and default of each option of settings and their groups."""
    for field in dataclasses.fields(settings):
        kind = get_args(field.type)[0] if hasattr(field.type, "__metadata__") else field.type
        if dataclasses.is_dataclass(kind):
            yield from option_fields(kind)
        elif field.name in definitions(settings):
            yield field.name, Sequence[str] if kind == Names else kind, field.default


def test_the_arguments_of_estimate_are_the_settings():
    """Names, types and defaults."""
    types = get_type_hints(punoise_api.estimate)
    parameters = inspect.signature(punoise_api.estimate).parameters
    stated = {(name, types[name], entry.default) for name, entry in parameters.items()}
    assert stated == {entry for entry in option_fields(Analysis) if entry[0] != "groups"}


def test_every_option_of_run_is_one_of_the_interface():
    names = {*inspect.signature(punoise_api.estimate).parameters}
    of_run = {*definitions(RunSettings)}
    assert names - of_run == {"bounds", "fdr"}
    assert of_run - names == {"out_dir", "table_format", "shards", *definitions(Process)} - {
        "threads"
    }
    used = {"labeled", "unlabeled"}.union(*CASES.values())
    assert names - {"bounds", "fdr"} == used | OF_FILES


@pytest.mark.parametrize("name", CASES)
def test_every_option_gives_the_numbers_of_run(name, wide, punoise, tmp_path):
    """The kinds of tables take turns; test_frames_of_any_library has all of them."""
    options = dict(CASES[name])
    sets = [n for n in wide if n != "negatives" or options.pop("negatives", None)]
    texts = [value if isinstance(value, list) else [value] for value in options.values()]
    used = {column for value in texts for column in value}
    if not {"score_column", "features"} & options.keys():
        unused = [c for c in (*FURTHER, "kind", "minus_a", "gaps") if c not in used]
        options.setdefault("drop_columns", unused)
        if name == "stated":
            options["drop_columns"] = [*options["drop_columns"], "kind", "minus_a", "gaps"]
    if "score_column" not in options:
        options.setdefault("classifier", "logistic")
    tables = {n: wide[n] for n in sets}
    if options.pop("table", None):
        tables = {
            "table": pd.concat(wide.values(), ignore_index=True).sample(frac=1, random_state=1)
        }
        tables["table"] = tables["table"].reset_index(drop=True)
    numbered = {column: f"x{j}" for j, column in enumerate(wide["labeled"])}
    tables = {n: frame.rename(columns=numbered) for n, frame in tables.items()}
    options = {n: renamed(value, numbered) for n, value in options.items()}
    files = {n: tmp_path / f"{n}.csv" for n in tables}
    for n, frame in tables.items():
        frame.to_csv(files[n], index=False)
    words = shell_words({**{n: str(file) for n, file in files.items()}, **options})
    punoise("run", *words, "--out-dir", tmp_path / "out")
    place = [*CASES].index(name)
    kind = KINDS[place % len(KINDS)]
    given = {n: kind(frame) for n, frame in tables.items()}
    assert_results_of(punoise_api.estimate(**given, **options), tmp_path / "out")


def renamed(value: object, names: dict[str, str]) -> object:
    """The value of an option with columns renamed."""
    if isinstance(value, list):
        return [names.get(item, item) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_any_library_come_back_as_they_went_in(
    library, frames, tables, punoise, tmp_path
):
    pytest.importorskip(library)
    punoise("run", *tables, "--classifier", "logistic", "--out-dir", tmp_path / "out")
    given = [frame_of(library, frame) for frame in frames]
    found = punoise_api.estimate(*given, **FAST)
    assert_results_of(found, tmp_path / "out")
    for frame in (found.labeled, found.candidates(3), found.score(given[1]), found.columns()):
        assert type(frame) is type(given[0])
    again = pickle.loads(pickle.dumps(found))
    assert as_pandas(again.unlabeled).equals(as_pandas(found.unlabeled))


def test_arrays_and_series_give_the_numbers_of_run(frames, tables, punoise, tmp_path):
    renamed = [frame.set_axis(["x0", "x1", "x2"], axis=1) for frame in frames]
    words = []
    for frame, name in zip(renamed, ("labeled", "unlabeled"), strict=True):
        frame.to_csv(tmp_path / f"{name}_x.csv", index=False)
        words += [f"--{name}", tmp_path / f"{name}_x.csv"]
    punoise("run", *words, "--classifier", "logistic", "--out-dir", tmp_path / "x")
    assert_results_of(
        punoise_api.estimate(*(frame.to_numpy() for frame in frames), **FAST), tmp_path / "x"
    )
    punoise("run", *tables, "--score-column", "a", "--out-dir", tmp_path / "a")
    prior = json.loads((tmp_path / "a" / "prior.json").read_text())
    kinds = [np.asarray, lambda s: s, list, lambda s: s.to_frame("b")]
    if "polars" in NAMED:
        kinds.append(partial(frame_of, "polars"))
    for kind in kinds:
        found = punoise_api.estimate(*(kind(frame["a"]) for frame in frames))
        assert found.prior == prior
        new = kind(frames[1]["a"])
        assert np.asarray(found.score(new)["score"]).tolist() == frames[1]["a"].tolist()


def test_files_give_the_numbers_of_run(frames, punoise, tmp_path):
    for frame, name in zip(frames, ("l", "u"), strict=True):
        frame.to_csv(tmp_path / f"{name}.data", index=False, sep="|", decimal=",")
        frame.to_excel(tmp_path / f"{name}.xlsx", index=False, sheet_name="S")
    for options, end in (
        ({"input_format": "csv", "delimiter": "|", "decimal": ","}, "data"),
        ({"sheet": "S"}, "xlsx"),
    ):
        given = {"labeled": tmp_path / f"l.{end}", "unlabeled": str(tmp_path / f"u.{end}")}
        words = shell_words({**given, **options, **FAST})
        punoise("run", *words, "--out-dir", tmp_path / end)
        found = punoise_api.estimate(**given, **options, **FAST)
        assert_results_of(found, tmp_path / end)


def test_bounds_and_calls_are_those_of_posterior(frames, results, punoise, tmp_path):
    files = ("--scores", results / "scores.parquet", "--prior", results / "prior.json")
    punoise("posterior", *files, "--bounds", "--fdr", "0.2", "--out", tmp_path / "p.parquet")
    written = pd.read_parquet(tmp_path / "p.parquet")
    found = punoise_api.estimate(*frames, bounds=True, fdr=0.2, **FAST)
    assert {"posterior_low", "call"} < {*found.unlabeled}
    assert_same_rows(found.unlabeled, written[written["set"] == "unlabeled"])


def test_one_table_comes_back_in_its_order_with_its_index(frames):
    table = pd.concat([f.assign(s=i) for i, f in enumerate(reversed(frames))])
    table["s"] = table["s"].map({0: "no", 1: "yes"}).where(table["a"] < 2.5, "odd")
    table = table.sample(frac=1, random_state=0).set_axis([f"r{i}" for i in range(len(table))])
    options = {"labeled_value": ["yes"], "unlabeled_value": ["no"], "ignore_value": ["odd"]}
    found = punoise_api.estimate(table=table, label_column="s", **options, **FAST)
    kept = table[table["s"] != "odd"]
    assert 0 < len(kept) < len(table)
    assert found.rows.index.equals(kept.index)
    assert found.labeled.index.equals(table.index[table["s"] == "yes"])
    assert (found.rows.loc[found.unlabeled.index, "set"] == "unlabeled").all()
    best = found.candidates(5)
    assert (found.unlabeled.loc[best.index, "posterior"] == best["posterior"]).all()
    places = found.unlabeled["posterior"].nlargest(5)
    assert sorted(places) == sorted(best["posterior"])
    ordered = punoise_api.estimate(
        table=as_arrow(table), label_column="s", **options, **FAST
    ).candidates(5)
    assert [table.index[i] for i in ordered["row"].to_pylist()] == [*best.index]


def test_new_rows_are_scored_as_the_command_scores_them(frames, tables, punoise, tmp_path):
    fast = ("--classifier", "logistic")
    model, scores = tmp_path / "m.punoise", tmp_path / "s.parquet"
    punoise("transform", *tables, *fast, "--out", tmp_path / "t.tsv", "--model-out", model)
    punoise("score", "--model", model, "--table", tables[3], "--out", scores)
    found = punoise_api.estimate(*frames, classifier="logistic").score(frames[1])
    assert found["score"].tolist() == pd.read_parquet(scores)["score"].tolist()
    assert found.index.equals(frames[1].index)
    assert "posterior_labeled" not in found


def test_a_score_column_and_errors_are_those_of_the_commands(frames):
    labeled, unlabeled = frames
    found = punoise_api.estimate(labeled, unlabeled, score_column="a", beta=0.9)
    assert found.unlabeled["score"].tolist() == unlabeled["a"].tolist()
    assert found.beta == 0.9
    with pytest.raises(InputError, match="'b' is missing"):
        punoise_api.estimate(labeled, unlabeled.drop(columns="b"))
    with pytest.raises(InputError, match="at least 20"):
        punoise_api.estimate(labeled.head(3), unlabeled)
    with pytest.raises(UsageError, match="classifier="):
        punoise_api.estimate(labeled, unlabeled, score_column="a", classifier="logistic")
    with pytest.raises(UsageError, match="purity='high'"):
        punoise_api.estimate(labeled, unlabeled, purity="high")
    with pytest.raises(UsageError, match=r"features=.*needed"):
        punoise_api.estimate(labeled, unlabeled, features="a")
    with pytest.raises(UsageError, match=r"alpha= .*purity="):
        punoise_api.estimate(labeled, unlabeled, alpha=0.2, purity=0.3)
    with pytest.raises(UsageError, match="add unlabeled="):
        punoise_api.estimate(labeled)
    with pytest.raises(ValueError, match="dict"):
        punoise_api.estimate(labeled, {"a": [1]})
    with pytest.raises(InputError, match="'a' has struct<> values"):
        punoise_api.estimate(labeled, unlabeled.assign(a=[{}] * len(unlabeled)))


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_columns_go_through_whatever_they_hold(form, frames):
    """Chromosomes are numbers and text in one column, as pandas reads them."""
    plain = punoise_api.estimate(*frames, classifier="logistic")
    given = []
    for frame in frames:
        frame.index = ["twice"] * len(frame)
        chromosome = [i if i % 3 else "X" for i in range(len(frame))]
        frame = frame.assign(CHROM=chromosome, note=lambda f: f["a"].astype(str))
        if form == "arrow":
            frame = pa.Table.from_pandas(frame.astype({"CHROM": str}), preserve_index=False)
        given.append(frame)
    keep = {"keep_columns": ["CHROM"], "drop_columns": ["note"]}
    found = punoise_api.estimate(*given, classifier="logistic", **keep)
    assert found.alpha == plain.alpha
    chromosomes = as_pandas(found.unlabeled)["CHROM"]
    assert [*map(str, chromosomes[:4])] == ["X", "1", "2", "X"]
    assert [*as_pandas(found.labeled)] == [*plain.labeled, "CHROM"]
    assert len(found.score(given[1])) == len(frames[1])
    with pytest.raises(InputError, match="'none'"):
        punoise_api.estimate(*given, keep_columns=["none"])
    with pytest.raises(InputError, match="'none'"):
        punoise_api.estimate(*given, drop_columns=["none"])


@pytest.mark.parametrize("option", ["labeled_are", "method", "classifier", "missing_score"])
def test_a_choice_is_one_of_those_there_are(frames, option):
    with pytest.raises(UsageError, match=f"{option}.*'negative'"):
        punoise_api.estimate(*frames, **{option: "negative"})


@pytest.mark.parametrize(
    ("option", "value"),
    [("beta", 2), ("beta", float("nan")), ("seed", -1), ("threads", 0), ("max_train_rows", 9)],
)
def test_a_number_is_in_its_range(frames, option, value):
    with pytest.raises(UsageError, match=f"{option}.*{value}"):
        punoise_api.estimate(*frames, **{option: value})


def test_groups_have_the_numbers_of_run(frames, punoise, tmp_path):
    given, options = [], []
    for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
        given.append(frame.assign(gene=[f"g{i % 7 % 3}" for i in range(len(frame))]))
        given[-1].to_csv(tmp_path / f"{name}.csv", index=False)
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    fast = ("--classifier", "logistic", "--by", "gene")
    out, model = tmp_path / "out", tmp_path / "out" / "model.punoise"
    punoise("run", *options, *fast, "--out-dir", out)
    found = punoise_api.estimate(*given, classifier="logistic", by="gene")
    theirs = pd.read_parquet(out / "groups.parquet").set_index("group")
    pd.testing.assert_frame_equal(found.groups, theirs)
    written = pd.read_parquet(out / "posterior.parquet")
    for ours, name in ((found.labeled, "labeled"), (found.unlabeled, "unlabeled")):
        rows = written[written["set"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours, rows[ours.columns])
    new = ("--scores", tmp_path / "s.parquet", "--model", model, "--prior", out / "prior.json")
    keep = ("--keep-columns", "gene", "--out", tmp_path / "s.parquet")
    punoise("score", "--model", model, "--table", options[3], *keep)
    by = ("--by", "gene", "--groups", out / "groups.parquet", "--out", tmp_path / "p.parquet")
    punoise("posterior", *new, *by)
    theirs, scored = pd.read_parquet(tmp_path / "p.parquet"), found.score(given[1])
    pd.testing.assert_frame_equal(scored, theirs[scored.columns])
    found.report(tmp_path / "r.html")
    assert "Largest groups" in (tmp_path / "r.html").read_text()
    assert punoise_api.estimate(*frames, classifier="logistic").groups is None
    with pytest.raises(InputError, match="no column 'gene'"):
        found.score(frames[1])
    with pytest.raises(UsageError, match="score"):
        punoise_api.estimate(*given, score_column="a", by="a")


def test_the_report_of_data_frames(frames, tmp_path):
    punoise_api.estimate(*frames, classifier="logistic").report(tmp_path / "r.html")
    assert "unlabeled rows" in (tmp_path / "r.html").read_text()


def test_the_examples_of_docstrings_and_of_the_guide_run():
    assert doctest.testfile(str(GUIDE), module_relative=False) == (0, doctest_examples(GUIDE))
    for module in (api, classifier):
        failed, run = doctest.testmod(module)
        assert (failed, run > 3) == (0, True)
    for name in ("Estimated", "PUClassifier", "apply", "estimate", "load"):
        assert ">>> " in inspect.getdoc(getattr(punoise_api, name)), name


def doctest_examples(file: Path) -> int:
    return file.read_text().count("\n>>> ")


@pytest.mark.ci
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    low, high = names["sample"].alpha_ci
    assert low < 0.6 < high
    assert names["verified"].prior["n_verdicts"] == 40
    assert 0 < names["model"].alpha_ < 1
    assert (tmp_path / "report.html").exists()


# ---- The result


@pytest.fixture(scope="module")
def found() -> punoise_api.Estimated:
    return punoise_api.estimate(*small_frames(), **FAST)


def test_a_result_is_short_to_look_at(found):
    assert re.fullmatch(
        r"Estimated\(alpha=0\.\d{4} \[.*\], beta=.*, labeled=150, unlabeled=400, warnings=\d+\)",
        repr(found),
    )
    shown = found._repr_html_()
    assert "<svg" in shown
    assert "Assumed:" in shown
    assert len(shown) < 20_000
    assert json.loads(found.to_json()) == found.prior


def test_a_model_is_saved_without_pickle_and_scores_alike(found, frames, punoise, tmp_path):
    found.save(tmp_path / "m.punoise")
    model = punoise_api.load(tmp_path / "m.punoise")
    assert (model.alpha, model.beta_ci) == (found.alpha, found.beta_ci)
    pd.testing.assert_frame_equal(model.score(frames[1]), found.score(frames[1]))
    frames[1].to_csv(tmp_path / "u.csv", index=False)
    fast = ("--classifier", "logistic", "--out", tmp_path / "t.tsv")
    frames[0].to_csv(tmp_path / "l.csv", index=False)
    tables = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    punoise("transform", *tables, *fast, "--model-out", tmp_path / "t.punoise")
    assert punoise_api.load(tmp_path / "t.punoise").alpha == found.alpha
    assert repr(model).startswith("Model(alpha=")


def test_verdicts_of_an_audit_are_heeded_as_by_the_commands(frames, results, punoise, tmp_path):
    found = punoise_api.estimate(*frames, **FAST, keep_columns=["a"], features=["a", "b", "c"])
    audit = found.audit(60, 20, seed=4)
    scores = ("--scores", results / "scores.parquet")
    draw = ("--rows", 60, "--labeled-rows", 20, "--seed", 4, "--out", tmp_path / "audit.tsv")
    punoise("audit", *scores, "--prior", results / "prior.json", *draw)
    drawn = pd.read_csv(tmp_path / "audit.tsv", sep="\t", keep_default_na=False)
    assert drawn["row"].tolist() == audit["row"].tolist()
    assert "a" in audit
    verdicts = np.where(audit["posterior"] > 0.6, "yes", "no")
    audit["verdict"] = drawn["verdict"] = verdicts
    drawn.to_csv(tmp_path / "audit.tsv", sep="\t", index=False)
    files = (*scores, "--verdicts", tmp_path / "audit.tsv", "--out", tmp_path / "v.json")
    punoise("estimate-prior", *files)
    revised = found.with_verdicts(audit)
    theirs = json.loads((tmp_path / "v.json").read_text())
    assert revised.prior["alpha_ci"] == theirs["alpha_ci"] != found.prior["alpha_ci"]
    assert revised.prior["n_verdicts"] == 80
    assert revised.unlabeled["posterior"].mean() == pytest.approx(revised.alpha, abs=0.02)
    top = found.audit(10, top=True)
    assert {*top["stratum"]} == {"top"}
    with pytest.raises(UsageError, match="give one above 0"):
        found.audit(0)
    with pytest.raises(UsageError, match=r"^rows=5 .*\d+"):
        found.audit(5)


def filled(audit: pd.DataFrame) -> pd.DataFrame:
    return audit.assign(verdict=np.where(audit["posterior"] > 0.6, "yes", "no"))


def test_a_second_round_of_verdicts_adds_to_the_first(found, results, punoise, tmp_path):
    first = filled(found.audit(60, 20))
    once = found.with_verdicts(first)
    second = filled(once.audit(60, seed=1))
    assert not {*first["row"]} & {*second["row"]}
    twice = once.with_verdicts(second)
    assert (once.prior["n_verdicts"], twice.prior["n_verdicts"]) == (80, 140)
    words = []
    for i, audit in enumerate((first, second)):
        audit.to_csv(tmp_path / f"{i}.tsv", sep="\t", index=False)
        words += ["--verdicts", tmp_path / f"{i}.tsv"]
    scores = ("--scores", results / "scores.parquet")
    punoise("estimate-prior", *scores, *words, "--out", tmp_path / "v.json")
    theirs = json.loads((tmp_path / "v.json").read_text())
    assert (theirs["alpha"], theirs["alpha_ci"]) == (twice.alpha, [*twice.alpha_ci])
    third = filled(twice.audit(30, seed=1, top=True))
    assert pickle.loads(pickle.dumps(twice)).with_verdicts(third).prior["n_verdicts"] > 140
    with pytest.raises(InputError, match=r"^audit 2: row \d+: contradicts .* of audit 1: row"):
        once.with_verdicts(first.assign(verdict="yes"))


def test_messages_about_an_audit_name_no_file(found):
    audit = filled(found.audit(60))
    with pytest.raises(InputError, match=r"^audit: column 'verdict' has 'perhaps' in row 1;"):
        found.with_verdicts(audit.assign(verdict="perhaps"))
    with pytest.raises(InputError, match=r"^audit: .*'verdict'.* id, "):
        found.with_verdicts(audit.drop(columns="verdict"))
    with pytest.raises(InputError, match=r"^audit: row 1: .*unlabeled"):
        found.with_verdicts(audit.assign(id="none"))


def test_an_audit_has_the_index_of_its_rows(frames):
    labeled, unlabeled = (
        frame.set_axis([f"{name}{i}" for i in range(len(frame))])
        for frame, name in zip(frames, "lu", strict=True)
    )
    found = punoise_api.estimate(labeled, unlabeled, **FAST)
    audit = found.audit(60, 20)
    both = pd.concat([found.labeled, found.unlabeled])
    assert {*audit["set"]} == {"labeled", "unlabeled"}
    assert (both.loc[audit.index, "score"] == audit["score"]).all()
    table = pd.concat([labeled.assign(s=1), unlabeled.assign(s=0)]).sample(frac=1, random_state=2)
    found = punoise_api.estimate(table=table, label_column="s", **FAST)
    audit = found.audit(60, 20)
    assert (found.rows.loc[audit.index, "score"] == audit["score"]).all()
    arrays = punoise_api.estimate(*(frame.to_numpy() for frame in frames), **FAST)
    audit = arrays.audit(60)
    assert (arrays.unlabeled.loc[audit.index, "score"] == audit["score"]).all()


def test_a_missing_column_of_new_rows_is_named_with_those_there_are(found, frames, tmp_path):
    message = "column 'a' .*b, other$"
    new = frames[1].rename(columns={"a": "other"})[["b", "other"]]
    with pytest.raises(InputError, match=message):
        found.score(new)
    new.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=message):
        found.score(tmp_path / "new.csv")


def test_docstrings_describe_every_option_and_column(found):
    heads = [
        line.strip()
        for line in inspect.getdoc(punoise_api.estimate).splitlines()
        if line and not line.startswith(" ")
    ]
    described = {name for head in heads for name in head.split(", ")}
    assert {*inspect.signature(punoise_api.estimate).parameters} <= described
    columns = inspect.getdoc(punoise_api.Estimated).splitlines()
    assert {*found.unlabeled} <= {*columns}
    assert "at most 12 strata" in inspect.getdoc(found.audit)
    assert STRATA == 12


def test_the_names_of_the_package_are_listed():
    names = dir(punoise_api)
    assert {"PUClassifier", "estimate", "load", "apply", "errors"} <= {*names}
    for name in ("estimate(", "PUClassifier(", "with_verdicts(", "load("):
        assert name in punoise_api.__doc__


def test_charts_are_those_of_the_report(found):
    assert len(repr(found.plot)) < 100
    for chart in (found.plot.scores(), found.plot.posterior(), found.plot.sensitivity()):
        assert chart.to_dict()["datasets"]["rows"]
    stated = punoise_api.estimate(*small_frames(), alpha=0.3, beta=0.9, **FAST)
    with pytest.raises(EstimationError, match="purity"):
        stated.plot.sensitivity()


def test_the_commands_load_no_library_of_frames(tables, tmp_path):
    """Nor scikit-learn, but for logistic regression, which few labels may get."""
    out = ("--out-dir", str(tmp_path / "out"), "-q")
    calls = [
        ["run", *tables, "--classifier", "networks", *out],
        ["calibrate", *tables, "--score-column", "a", *out],
    ]
    code = (
        "import sys; from pu_noise_cli.cli.process import cli\n"
        f"for words in {calls!r}: cli.main(words, standalone_mode=False)\n"
        "print({'pandas', 'narwhals', 'polars', 'sklearn'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_package_loads_nothing_before_it_is_used():
    """numpy alone takes six times as long as this import."""
    code = "import sys, pu_noise_cli; print({'numpy', 'pyarrow', 'sklearn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


CALLER = """
import pu_noise_cli as punoise

def alphas(rows: list[float]) -> tuple[float, tuple[float, float] | None]:
    result: punoise.Estimated = punoise.estimate(rows, rows, purity=0.3)
    model: punoise.Model = punoise.load("model.punoise")
    punoise.PUClassifier(purity=0.3).fit([rows], [1]).predict_proba([rows])
    return model.estimate_new(rows).alpha, result.alpha_ci
"""


@pytest.mark.parametrize(("change", "fails"), [("", False), ("purity='high'", True)])
def test_callers_are_checked_by_mypy(tmp_path, change, fails):
    """In a directory of their own: with what the package says of its types."""
    (tmp_path / "caller.py").write_text(CALLER.replace("purity=0.3", change or "purity=0.3"))
    words = ["-m", "mypy", "--strict", "--cache-dir", str(MYPY_CACHE), "caller.py"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stdout
    assert done.stdout.count('incompatible type "str"') == 2 * fails


# ---- A new sample


def shifted(alpha: float, rows: int, seed: int) -> pd.DataFrame:
    """Rows as those of small_frames, with another alpha."""
    rng = np.random.default_rng(seed)
    positive = np.arange(rows) < round(alpha * rows)
    x = rng.normal(size=(rows, 3)) + 1.5 * positive[:, None]
    return pd.DataFrame(x.round(6), columns=["a", "b", "c"])


@pytest.mark.parametrize("alpha", [0.05, 0.7])
def test_alpha_of_a_new_sample_is_that_of_the_command(alpha, found, results, punoise, tmp_path):
    new = shifted(alpha, 800, 1)
    sample = found.estimate_new(new.set_axis([f"n{i}" for i in range(800)]))
    low, high = sample.alpha_ci
    assert low < alpha < high
    assert high - low < 0.35
    assert abs(sample.alpha - alpha) < abs(found.alpha - alpha) / 2
    assert sample.rows["posterior"].mean() == pytest.approx(sample.alpha, abs=0.05)
    assert sample.rows.index[3] == "n3"
    new.to_csv(tmp_path / "new.csv", index=False)
    model = ("--model", results / "model.punoise")
    files = ("--table", tmp_path / "new.csv", "--out", tmp_path / "new.json")
    said = punoise("estimate-prior", *model, *files)
    assert "800" in said.err
    theirs = validated(json.loads((tmp_path / "new.json").read_text()))
    assert (theirs["alpha"], theirs["alpha_ci"]) == (sample.alpha, [*sample.alpha_ci])
    assert theirs["shifted_from"]["alpha"] == found.alpha
    punoise("score", *model, "--table", tmp_path / "new.csv", "--out", tmp_path / "s.parquet")
    scores = ("--scores", tmp_path / "s.parquet", "--prior", tmp_path / "new.json")
    punoise("posterior", *scores, *model, "--out", tmp_path / "p.parquet")
    assert_same_rows(sample.rows, pd.read_parquet(tmp_path / "p.parquet"))
    punoise("estimate-prior", *model, *files, "--beta", "1", "--purity", "0.2")
    assert json.loads((tmp_path / "new.json").read_text())["beta"] == 1


def test_a_new_sample_of_another_kind_is_noticed(found):
    new = shifted(0.5, 800, 2) * 0.2 + 0.9
    assert [w.code for w in found.estimate_new(new).warnings] == ["new-rows-differ"]
    with pytest.raises(EstimationError, match="at least 20"):
        found.estimate_new(new.head(5))
    assert repr(found.estimate_new(new)).startswith("NewSample(alpha=")


def test_rows_of_the_training_are_no_new_sample(found, frames, results, punoise, tmp_path):
    assert [w.code for w in found.estimate_new(frames[1]).warnings] == ["training-rows-scored"]
    frames[1].to_csv(tmp_path / "new.csv", index=False)
    new = ("--model", results / "model.punoise", "--table", tmp_path / "new.csv")
    said = punoise("estimate-prior", *new, "--out", tmp_path / "new.json", "--strict", expect=4)
    assert "training-rows-scored" in said.err


def test_a_purity_that_is_not_true_misleads():
    """A fifth of the unlabeled rows at the top are positive here, not four fifths."""
    rng = np.random.default_rng(0)
    scores = [rng.normal(2.0, 1, 300), np.r_[rng.normal(2.0, 1, 60), rng.normal(0.9, 1, 2000)]]
    plain, pure = (punoise_api.estimate(*scores, purity=p) for p in (None, 0.8))
    truth = 60 / 2060
    assert plain.alpha_ci[0] <= truth <= plain.alpha_ci[1]
    assert pure.alpha_ci[0] > truth


@pytest.mark.parametrize(
    ("known", "fraction", "options"),
    [
        (1.0, 0.2, {"beta": 1}),
        pytest.param(
            *(0.95, 0.2, {"alpha_between": (0.1, 0.4), "purity": 0.3}), marks=pytest.mark.ci
        ),
        pytest.param(0.95, 0.2, {"method": "msgmm"}, marks=pytest.mark.ci),
        (0.05, 0.6, {"labeled_are": "negatives", "alpha_between": (0.4, 0.8)}),
    ],
)
def test_what_is_known_of_the_training_rows_holds_for_a_new_sample(known, fraction, options):
    rng = np.random.default_rng(1)

    def scores(rows: int, alpha: float) -> np.ndarray:
        return rng.normal(np.where(np.arange(rows) < alpha * rows, 2.5, 0.0), 1)

    trained = punoise_api.estimate(scores(300, known), scores(3000, fraction), **options)
    for alpha in (0.03, 0.6):
        low, high = trained.estimate_new(scores(1000, alpha)).alpha_ci
        assert low <= alpha <= high
        assert high - low < 0.25
