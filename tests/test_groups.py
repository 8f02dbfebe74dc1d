"""Groups: each has its own share of positives, and leans on all the more the smaller it is."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pu_noise_cli.posterior import groups, pooling
from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.posterior.groups import OTHER, CountGroups, GroupCounter, _bound
from pu_noise_cli.posterior.pooling import Bins, PooledShares, pool
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import LABELED, UNLABELED, Chunk

ALPHAS = {"large": 0.5, "small": 0.5, **{f"G{i}": 0.05 for i in range(8)}}
SIZES = {"large": 2000, "small": 20, **{f"G{i}": 300 for i in range(8)}}


def genes(
    seed: int, various: bool = False, shift: float = 0.0, labeled_share: float = 0.95
) -> pd.DataFrame:
    """Rows of the genes of ALPHAS and SIZES, or of various ones, with their classes and shares.

    Labeled rows come first.
    """
    rng = np.random.default_rng(seed)
    alphas, sizes = ALPHAS, SIZES
    if various:
        alphas, sizes = (
            {f"V{i}": value for i, value in enumerate(np.exp(rng.uniform(*np.log(ends), 30)))}
            for ends in ((0.01, 0.5), (30, 3000))
        )
    parts = []
    for name, alpha in alphas.items():
        moved, size = shift * rng.normal(), int(sizes[name])
        for labeled, n in ((1, max(20, size // 4)), (0, size)):
            y = rng.random(n) < (labeled_share if labeled else alpha)
            score = (rng.normal(size=n) + 2 * y + moved).round(6)
            rows = {"gene": name, "known": labeled, "s": score, "y": y, "alpha": alpha}
            parts.append(pd.DataFrame(rows))
    return pd.concat(parts).sort_values("known", ascending=False, kind="stable", ignore_index=True)


def pooled(frame: pd.DataFrame, labeled_negatives: bool = False) -> dict[str, tuple[float, ...]]:
    """α and its interval, and the shift, of each gene and of OTHER."""
    sketch = Sketch.from_rows(frame.s.to_numpy(), frame.known.to_numpy(np.int8))
    if labeled_negatives:
        sketch = replace(sketch, labeled_class="negative")
    prior = estimate_prior(sketch, "auto", Settings())
    sketch, shares, _ = shares_for(prior, sketch)
    calibration = calibrate(sketch, shares)
    bins = Bins.from_calibration(calibration)
    counter = GroupCounter("gene", len(bins.first))
    cells = bins.by_cell[sketch.cell_index(frame.s.to_numpy())]
    counter.add(pa.array(frame.gene), frame.known.to_numpy(np.int8), cells)
    counts = counter.result()
    found = pool(calibration, bins, counts.counts)
    columns = (found.alpha, found.alpha_low, found.alpha_high, found.shift)
    return dict(zip((OTHER, *counts.names), zip(*columns, strict=True), strict=True))


@pytest.fixture
def tables(tmp_path) -> list[str]:
    """The options that name tables of genes with one score, the unlabeled one in three files."""
    frame = genes(1).drop(columns=["y", "alpha"])
    frame.loc[frame.index % 97 == 0, "gene"] = None
    labeled, unlabeled = (frame[frame.known == k].drop(columns="known") for k in (1, 0))
    labeled.to_parquet(tmp_path / "l.parquet")
    unlabeled.to_parquet(tmp_path / "u.parquet")
    (tmp_path / "u").mkdir()
    for i, part in enumerate(np.array_split(np.random.default_rng(0).permutation(3000), 3)):
        unlabeled.iloc[np.sort(part)].to_parquet(tmp_path / "u" / f"{i}.parquet")
    return ["--labeled", f"{tmp_path}/l.parquet", "--unlabeled", f"{tmp_path}/u.parquet"]


BY = ("--score-column", "s", "--by", "gene")


# ---- What is estimated


def test_a_small_group_leans_on_all_and_a_large_one_on_itself():
    found = [pooled(genes(seed)) for seed in range(4)]
    large, small = (np.mean([one[name][0] for one in found]) for name in ("large", "small"))
    assert abs(large - 0.5) < 0.05
    assert 0.1 < small < large - 0.05
    widths = {name: np.mean([one[name][2] - one[name][1] for one in found]) for name in ALPHAS}
    assert widths["small"] > 2 * widths["large"]
    for one in found:
        low, mean, high = one[OTHER][1], one[OTHER][0], one[OTHER][2]
        assert low < 0.05 < mean < 0.4 < high  # a group of which nothing is known


def test_pooled_shares_are_better_than_separate_ones():
    errors = np.zeros(2)
    for seed in range(3):
        frame = genes(seed, various=True)
        found = pooled(frame)
        for name, mine in frame.groupby("gene"):
            scores = (mine.s[mine.known == known].to_numpy() for known in (1, 0))
            separate = estimate_prior(Sketch.from_samples(*scores), "auto", Settings()).answer.alpha
            errors += np.abs(np.array([found[name][0], separate]) - mine.alpha.iloc[0])
    assert errors[0] < 0.7 * errors[1]


def test_a_shift_of_a_group_is_not_taken_for_positives(monkeypatch):
    frames = [genes(seed, various=True, shift=0.4) for seed in range(2)]

    def errors() -> float:
        found = []
        for frame in frames:
            truth = frame.groupby("gene").alpha.first()
            found += [
                abs(one[0] - truth[name]) for name, one in pooled(frame).items() if name in truth
            ]
        return np.mean(found)

    with_shifts = errors()
    monkeypatch.setattr(pooling, "SPREADS", (0.0,))
    pooling._shift_priors.cache_clear()
    without = errors()
    monkeypatch.undo()
    pooling._shift_priors.cache_clear()
    assert with_shifts < 0.8 * without


def test_labeled_negatives_give_the_same_shares():
    frame = genes(2, labeled_share=0.02)
    found = pooled(frame, labeled_negatives=True)
    assert abs(found["large"][0] - 0.5) < 0.06
    assert np.mean([abs(found[f"G{i}"][0] - 0.05) for i in range(8)]) < 0.04


def test_one_group_has_the_share_of_the_whole():
    frame = genes(3).assign(gene="all")
    sketch = Sketch.from_rows(frame.s.to_numpy(), frame.known.to_numpy(np.int8))
    whole = estimate_prior(sketch, "auto", Settings()).answer.alpha
    assert abs(pooled(frame)["all"][0] - whole) < 0.02


# ---- How rows are counted


def counted(parts) -> groups.GroupCounts:
    """The counts of parts of rows, each with names, sets and bins, merged."""
    results = []
    for names, sets, bins in parts:
        counter = GroupCounter("gene", 4)
        counter.add(pa.array(names), sets, bins)
        results.append(counter.result())
    return CountGroups.merge(results)


@pytest.fixture
def rows():
    """Names of 60 groups, of which the first are large, with sets and bins."""
    rng = np.random.default_rng(5)
    numbers = np.concatenate([rng.integers(0, 60, 600), rng.integers(0, 5, 2000)])
    numbers = rng.permutation(numbers)
    names = np.array([f"g{number}" for number in numbers])
    return names, rng.integers(0, 3, len(names)), rng.integers(0, 4, len(names))


def test_counts_do_not_depend_on_how_rows_are_divided(rows):
    whole = counted([rows])
    assert len(whole.names) == 60
    assert whole.counts.sum() == len(rows[0])
    for name, counts in zip(whole.names, whole.counts[1:], strict=True):
        assert counts.sum() == (rows[0] == name).sum()
    orders = itertools.permutations(np.array_split(np.arange(len(rows[0])), 3))
    for order in orders:
        found = counted([[column[part] for column in rows] for part in order])
        assert found.names == whole.names
        np.testing.assert_array_equal(found.counts, whole.counts)


def test_rows_of_no_group_are_counted_as_others():
    counts = counted([(["", "a", OTHER], np.zeros(3, int), np.arange(3))])
    assert counts.names == ("a",)
    assert counts.counts[0, UNLABELED].tolist() == [1, 0, 1, 0]
    assert counts.counts[:, LABELED].sum() == 0


def test_what_means_missing_names_no_group():
    batch = pa.record_batch({"gene": ["NA", "BRCA1", ".", "", None, "NAT2"]})
    chunk = Chunk(batch, np.zeros(6, np.int8), 0, 0, "table.tsv", 0)
    assert groups.group_names(chunk, "gene").to_pylist() == ["", "BRCA1", "", "", "", "NAT2"]


# ---- Commands


def test_run_is_the_chain_of_single_commands(tables, punoise, tmp_path):
    out = tmp_path / "run"
    punoise("run", *tables, *BY, "--evidence", "acmg", "--format", "tsv", "--out-dir", out)
    scores, prior = ("--scores", out / "scores.tsv"), ("--prior", out / "prior.json")
    to = ("--groups-out", tmp_path / "g.tsv")
    punoise("estimate-prior", *scores, "--by", "gene", *to, "--out", tmp_path / "p.json")
    direct = ("--groups-out", tmp_path / "d.tsv")
    punoise("estimate-prior", *tables, *BY, *direct, "--out", tmp_path / "q.json")
    assert (tmp_path / "p.json").read_bytes() == (out / "prior.json").read_bytes()
    estimated = (tmp_path / "g.tsv").read_text()
    assert (tmp_path / "d.tsv").read_text() == estimated
    with_levels = (out / "groups.tsv").read_text().splitlines()
    assert ["\t".join(line.split("\t")[:8]) for line in with_levels] == estimated.splitlines()
    for more in ([], ["--groups", tmp_path / "g.tsv"]):
        again = ("--groups-out", tmp_path / "again.tsv", "--out", tmp_path / "post.tsv")
        punoise("posterior", *scores, *prior, "--by", "gene", *more, "--evidence", "acmg", *again)
        assert (tmp_path / "again.tsv").read_text().splitlines() == with_levels
        assert (tmp_path / "post.tsv").read_bytes() == (out / "posterior.tsv").read_bytes()
    assert "Largest groups" in (out / "report.html").read_text()


@pytest.mark.parametrize("form", ["parquet", "tsv"])
def test_a_report_on_posteriors_by_group_is_of_all_rows_together(tables, punoise, tmp_path, form):
    """They average to the groups' shares of positives, which is no reason to warn."""
    out, page = tmp_path / "run", tmp_path / "r.html"
    punoise("run", *tables, *BY, "--format", form, "--out-dir", out)
    files = ("--scores", out / f"scores.{form}", "--prior", out / "prior.json", "--out", page)
    without = punoise("report", *files).err
    data = re.search(r'<script type="application/json"[^>]*>.*?</script>', page.read_text(), re.S)
    assert punoise("report", *files, "--posterior", out / f"posterior.{form}").err == without
    assert "posterior-mean-off" not in without
    assert "those of each row's own group" in page.read_text()
    assert data is not None
    assert data[0] in page.read_text()


def test_each_row_has_the_posterior_of_its_group(tables, punoise, tmp_path):
    punoise("run", *tables, *BY, "--evidence", "acmg", "--out-dir", tmp_path / "by")
    punoise("run", *tables, "--score-column", "s", "--out-dir", tmp_path / "whole")
    rows = pd.read_parquet(tmp_path / "by" / "posterior.parquet")
    found = pd.read_parquet(tmp_path / "by" / "groups.parquet").set_index("group")
    assert found.index[-1] == OTHER
    assert found.index[:-1].is_monotonic_increasing
    assert found.n_unlabeled.sum() == 4420
    assert found.n_negatives.sum() == 0
    alpha = rows.gene.replace("", OTHER).map(found.alpha).to_numpy()
    bayes = alpha * rows.lr / (alpha * rows.lr + 1 - alpha)
    np.testing.assert_allclose(rows.posterior, bayes, rtol=1e-9)
    for name, mine in rows[rows.set == "unlabeled"].groupby("gene"):
        ranked = mine.sort_values("score")
        assert (np.diff(ranked.posterior) >= 0).all()
        assert (np.diff(ranked.fdr) <= 1e-12).all()
        begins = found.PP3_Supporting[name or OTHER]
        assert (mine.score[mine.evidence == "pathogenic_supporting"] >= begins).all()
        stronger = mine.evidence.str.startswith("pathogenic")
        assert not stronger[mine.score < begins].any()
    truth = genes(1)
    unlabeled = (truth.known == 0).to_numpy()
    plain = pd.read_parquet(tmp_path / "whole" / "posterior.parquet").posterior
    brier = [((p - truth.y) ** 2)[unlabeled].mean() for p in (rows.posterior, plain)]
    assert brier[0] < 0.9 * brier[1]


def test_bounds_hold_the_posterior_and_calls_are_told(tables, punoise, tmp_path):
    punoise("run", *tables, *BY, "--out-dir", tmp_path / "run")
    given = ("--scores", tmp_path / "run/scores.parquet", "--prior", tmp_path / "run/prior.json")
    wanted = ("--by", "gene", "--bounds", "--fdr", "0.1", "--out", tmp_path / "p.parquet")
    said = punoise("posterior", *given, *wanted).err
    rows = pd.read_parquet(tmp_path / "p.parquet")
    assert ((rows.posterior_low <= rows.posterior) & (rows.posterior <= rows.posterior_high)).all()
    assert (rows.call == (rows.fdr <= 0.1)).all()
    called = rows.call[rows.set == "unlabeled"].sum()
    assert f"calls  {called} unlabeled rows" in said
    assert called > 100


def test_bounds_are_numbers_where_likelihood_ratios_are_not():
    lr, low, high = np.array([np.inf, 0.0]), np.array([3.0, 0.0]), np.array([np.inf, 0.5])
    alpha, ends = np.full(2, 0.3), (np.full(2, 0.1), np.full(2, 0.6))
    assert 0 < _bound(lr, low, alpha, ends[0], -1)[0] < 1
    assert _bound(lr, low, alpha, ends[0], -1)[1] == 0
    assert _bound(lr, high, alpha, ends[1], 1)[0] == 1
    assert 0 < _bound(lr, high, alpha, ends[1], 1)[1] < 1


def test_bounds_hold_the_posterior_where_the_share_of_a_group_is_certain(scores, punoise, tmp_path):
    shares = PooledShares(*np.array([[0.2], [0.2], [0.2], [0.0]]))
    found = groups.Groups("id", (OTHER,), np.ones((1, 3), np.int64), shares)
    found.write(str(tmp_path / "g.tsv"))
    given = ("--scores", scores, "--alpha", "0.2", "--by", "id", "--groups", tmp_path / "g.tsv")
    punoise("posterior", *given, "--bounds", "--out", tmp_path / "p.tsv")
    rows = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    assert ((rows.posterior_low <= rows.posterior) & (rows.posterior <= rows.posterior_high)).all()
    assert (rows.posterior_low < rows.posterior).any()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def test_shards_threads_and_resume_give_the_same(tables, punoise, tmp_path):
    shards = [*tables[:3], f"{tmp_path}/u", *BY, "--evidence", "acmg", "--shards"]
    punoise("run", *shards, "--out-dir", tmp_path / "a")
    punoise("run", *shards, "--out-dir", tmp_path / "b", "--threads", "2")
    before = contents(tmp_path / "a")
    assert contents(tmp_path / "b") == before
    (tmp_path / "a" / "posterior" / "unlabeled-1.parquet").unlink()
    punoise("run", *shards, "--out-dir", tmp_path / "a", "--resume")
    assert contents(tmp_path / "a") == before


def test_a_part_of_the_scores_takes_the_groups_of_all(tables, punoise, tmp_path):
    out = tmp_path / "run"
    punoise("run", *tables, *BY, "--format", "tsv", "--out-dir", out)
    punoise("sketch", "--scores", out / "scores.tsv", "--out", tmp_path / "all.sketch")
    header, *lines = (out / "scores.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "part.tsv").write_text("".join([header, *lines[3000:3500]]))
    given = ["posterior", "--scores", tmp_path / "part.tsv", "--prior", out / "prior.json"]
    given += ["--sketch", tmp_path / "all.sketch", "--by", "gene", "--out", tmp_path / "post.tsv"]
    assert "--by needs --groups" in punoise(*given, expect=2).err
    punoise(*given, "--groups", out / "groups.tsv")
    whole = (out / "posterior.tsv").read_text().splitlines()
    assert (tmp_path / "post.tsv").read_text().splitlines() == [whole[0], *whole[3001:3501]]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--by", "none"], 3, "no column 'none' for --by"),
        (["--by", "gene", "--target-alpha", "0.1"], 2, "leave out --target-alpha"),
        (["--by", "s"], 2, "has the labels or the score"),
        (["--by", "gene", "--alpha", "0.2", "--strict"], 0, ""),
    ],
)
def test_what_run_takes(tables, punoise, tmp_path, more, code, said):
    run = ("run", *tables, "--score-column", "s", "--out-dir", tmp_path / "run")
    assert said in punoise(*run, *more, expect=code).err


@pytest.mark.parametrize(
    ("command", "more", "code", "said"),
    [
        ("estimate-prior", ["--by", "gene"], 2, "--by needs --groups-out"),
        ("estimate-prior", ["--groups-out", "g.tsv"], 2, "--groups-out goes with --by"),
        ("estimate-prior", ["--by", "x", "--groups-out", "g.tsv"], 3, "no column 'x' for --by"),
        ("estimate-prior", ["--by", "set", "--groups-out", "g.tsv"], 2, "has the labels"),
        ("posterior", ["--groups", "g.tsv"], 2, "--groups goes with --by"),
    ],
)
def test_what_does_not_go_together_is_said(scores, punoise, tmp_path, command, more, code, said):
    given = [command, "--scores", scores, "--out", tmp_path / "out.tsv"]
    if command == "posterior":
        given += ["--alpha", "0.3"]
    assert said in punoise(*given, *more, expect=code).err


def test_scores_that_say_nothing_say_nothing_of_groups(scores, punoise, tmp_path):
    given = ("posterior", "--scores", scores, "--alpha", 0, "--by", "id", "--out")
    said = punoise(*given, tmp_path / "out.tsv", expect=4).err
    assert "with an alpha of 0 and a beta of 1" in said
    assert not (tmp_path / "out.tsv").exists()


def test_a_sketch_knows_of_no_groups(scores, punoise, tmp_path):
    punoise("sketch", "--scores", scores, "--out", tmp_path / "s.sketch")
    given = ("--sketch", tmp_path / "s.sketch", "--by", "gene", "--groups-out", tmp_path / "g.tsv")
    assert "knows of no groups" in punoise("estimate-prior", *given, expect=2).err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame[:-1], "has each group once, and '(other)'"),
        (lambda frame: pd.concat([frame, frame[:1]]), "has each group once"),
        (lambda frame: frame.assign(alpha=1.5), "within [0, 1]"),
        (lambda frame: frame.assign(alpha_low=np.nan), "within [0, 1]"),
        (lambda frame: frame.drop(columns="shift"), "no column 'shift'"),
        (lambda frame: frame.assign(shift="far"), "'far'"),
    ],
)
def test_damaged_tables_of_groups_are_refused(scores, punoise, tmp_path, change, said):
    shares = PooledShares(*np.array([[0.2, 0.3], [0.1, 0.2], [0.3, 0.4], [0.0, 0.1]]))
    found = groups.Groups("id", (OTHER, "a"), np.ones((2, 3), np.int64), shares)
    found.write(str(tmp_path / "g.tsv"))
    path = tmp_path / "changed.tsv"
    change(pd.read_csv(tmp_path / "g.tsv", sep="\t")).to_csv(path, sep="\t", index=False)
    given = ("--scores", scores, "--alpha", "0.3", "--by", "id", "--out", tmp_path / "p.tsv")
    assert said in punoise("posterior", *given, "--groups", path, expect=3).err
    punoise("posterior", *given, "--groups", tmp_path / "g.tsv")


def test_an_id_is_not_a_group(tables, punoise, tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "MAX_GROUPS", 4)
    error = punoise("run", *tables, *BY, "--out-dir", tmp_path / "run", expect=3).err
    assert "column 'gene' has more than 4 different values; is it an id?" in error
    assert not (tmp_path / "run" / "groups.parquet").exists()


def test_rows_without_a_score_have_no_posterior_and_count_nowhere(punoise, tmp_path):
    frame = genes(1).drop(columns=["y", "alpha"])
    frame.loc[::50, "s"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = ("--table", tmp_path / "t.csv", "--label-column", "known", *BY)
    more = ("--missing-score", "skip", "--evidence", "acmg", "--out-dir", tmp_path / "run")
    punoise("run", *table, *more)
    rows = pd.read_parquet(tmp_path / "run" / "posterior.parquet")
    gaps = frame.s.isna().to_numpy()
    for column in ("posterior", "lr", "fdr", "evidence"):
        np.testing.assert_array_equal(rows[column].isna(), gaps)
    found = pd.read_parquet(tmp_path / "run" / "groups.parquet")
    assert found.n_unlabeled.sum() == ((frame.known == 0) & ~gaps).sum()
