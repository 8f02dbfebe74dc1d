"""The pass before training: surveys of parts, merged, are the survey of the whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.scale.engine import Engine, Job, Local
from pu_noise_cli.score.training import Survey, SurveyRows
from pu_noise_cli.tables import columns as encoding
from pu_noise_cli.tables.columns import ColumnSummary
from pu_noise_cli.tables.reading import open_table
from pu_noise_cli.tables.rows import LABELED, NEGATIVE, UNLABELED, Rows

SIZES = (400, 1, 900, 250)  # rows of the unlabeled files
NAMES = ("x", "odd", "kind", "flag", "many", "mixed")


def frame(n: int, seed: int) -> pd.DataFrame:
    """Columns of every kind: whole numbers, gaps, truth values, few, many and odd levels."""
    rng = np.random.default_rng(seed)
    many = rng.zipf(1.3, n).clip(max=10**6)
    mixed = np.where(rng.random(n) < 0.5, rng.choice(["1", "2.5"], n), rng.choice(["a", "b"], n))
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "odd": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "kind": rng.choice(["red", "green", "blue", None], n),
            "flag": rng.choice(["true", "false"], n),
            "many": [f"level {i}" for i in many],
            "mixed": mixed,
        }
    )


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    frame(300, 0).to_parquet(tmp_path / "l.parquet")
    (tmp_path / "u").mkdir()
    for i, n in enumerate(SIZES):
        frame(n, i + 1).to_parquet(tmp_path / "u" / f"{i}.parquet", row_group_size=100)
    frame(60, 9).to_parquet(tmp_path / "n.parquet")
    tables = [open_table(str(tmp_path / name)) for name in ("l.parquet", "u", "n.parquet")]
    return Rows.from_tables(tables, sets=(LABELED, UNLABELED, NEGATIVE))


def in_parts(step: SurveyRows, rows: Rows, groups: list[list[int]]) -> Survey:
    """Each file by itself, merged in groups, then the groups."""
    parts = [step(Job(part), lambda n: None, 1) for part in rows.parts()]
    return step.merge([step.merge([parts[i] for i in group]) for group in groups])


def content(survey: Survey, rows: Rows) -> dict[str, object]:
    """All that training takes from a survey."""
    survey.profiler.finish(rows)
    encoded, notices = survey.profiler.encoding()
    samples = (survey.labeled, survey.others)
    return {
        "encoding": encoded.as_json(),
        "notices": notices,
        "summary": survey.profiler.summary(),
        "profiles": survey.profiler.profiles,
        "seen": [(sample.seen, len(sample)) for sample in samples] + [dict(survey.seen)],
        "places": [sample.places.tolist() for sample in samples],
        "rows": [[b.to_pylist() for c in s.chunks for b in [c.batch]] for s in samples],
        "negatives": survey.negatives,
        "digests": survey.digests,
    }


def flat(found: dict[str, object]) -> dict[str, object]:
    """Content without regard to how the sampled rows are cut into chunks."""
    rows = [[repr(row) for chunk in sample for row in chunk] for sample in found.pop("rows")]
    profiles = found.pop("profiles")
    levels = {
        column["name"]: [dict(profile.levels) for profile in profiles[column["name"]]]
        for column in found["encoding"]["columns"]
        if column["kind"] == "category"
    }
    return {**found, "rows": rows, "levels": levels}


GROUPS = ([[0], [1], [2], [3], [4], [5]], [[0, 1, 2, 3, 4, 5]], [[0, 1], [2, 3, 4], [5]])


@pytest.mark.parametrize("size", [100, 1000, 10_000])
@pytest.mark.parametrize("groups", GROUPS)
def test_surveys_of_parts_merge_to_that_of_the_whole(rows, size, groups):
    step = SurveyRows(size, seed=3, na=("-1",), digests=True)
    whole = step(Job(rows), lambda n: None, 1)
    expected = flat(content(step.merge([whole]), rows))
    assert flat(content(in_parts(step, rows, groups), rows)) == expected
    assert expected["negatives"] == 60
    table = rows.tables[1].name
    assert expected["summary"][-2] == ColumnSummary("mixed", table, "category", sum(SIZES), 0, 4)


@pytest.mark.parametrize("most", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("groups", GROUPS)
def test_more_levels_than_are_counted_are_the_same_in_parts(rows, most, groups, monkeypatch):
    """The levels that count are those that come first in the table, with all their rows."""
    monkeypatch.setattr(encoding, "MAX_COUNTED_LEVELS", most)
    step = SurveyRows(100, seed=0, categorical=("kind",))
    expected = flat(content(step(Job(rows), lambda n: None, 1), rows))
    assert flat(content(in_parts(step, rows, groups), rows)) == expected
    counted = expected["levels"]["many"][1]
    whole = pd.concat([frame(n, i + 1) for i, n in enumerate(SIZES)])["many"]
    first = whole.unique()[:most]
    assert counted == whole[whole.isin(first)].value_counts().to_dict()


def test_merging_leaves_the_parts_as_they_are(rows):
    """A worker that takes over from one that died merges them again."""
    step = SurveyRows(200, seed=0, digests=True)
    parts = [step(Job(part), lambda n: None, 1) for part in rows.parts()]
    once, twice = (flat(content(step.merge(parts), rows)) for _ in range(2))
    assert once == twice


@pytest.mark.parametrize("threads", [1, 2])
def test_the_pass_gives_the_digest_of_every_file(rows, threads, tmp_path):
    pd.DataFrame(columns=NAMES, dtype=float).to_parquet(tmp_path / "u" / "none.parquet")
    rows = replace(rows, tables=(rows.tables[0], open_table(str(tmp_path / "u")), rows.tables[2]))
    seen: list[int] = []
    found = SurveyRows(100, seed=0, digests=True)(Job(rows), seen.append, threads)
    files = [*tmp_path.glob("*.parquet"), *(tmp_path / "u").iterdir()]
    expected = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert found.digests == expected
    assert sum(seen) == 300 + sum(SIZES) + 60
    assert not SurveyRows(100, seed=0)(Job(rows), seen.append, 1).digests


def test_a_file_is_digested_once(rows, monkeypatch, tmp_path):
    """In the pass before training, which reads it anyway."""
    from pu_noise_cli.pipeline import Request, analyse
    from pu_noise_cli.prior.base import Settings
    from pu_noise_cli.score.training import TransformSettings
    from pu_noise_cli.tables import files

    opened: list[str] = []
    digest = files.hashlib.sha256
    monkeypatch.setattr(files.hashlib, "sha256", lambda: (opened.append("digest"), digest())[1])
    request = Request(TransformSettings("logistic", max_train_rows=500), Settings())
    engine = Engine(Local(1))
    analyse(rows, request, engine, str(tmp_path / "s.parquet"), digests=True)
    for table in rows.tables:
        for shard in table.shards:
            assert shard.sha256() == digest(Path(shard.path).read_bytes()).hexdigest()
    assert opened == ["digest"] * (2 + len(SIZES))
