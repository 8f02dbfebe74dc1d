"""Peptide-spectrum matches: .pin files, competition, q-values, and what tells decoys."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from searches import HEADER, pin_lines

import pu_noise_cli
from pu_noise_cli.errors import InputError, UsageError
from pu_noise_cli.proteomics import pin as pin_tables
from pu_noise_cli.proteomics.matches import Matches, check_decoys, q_values
from pu_noise_cli.proteomics.training import discriminating_features
from pu_noise_cli.score.classifiers import CLASSIFIERS, Training, set_apart
from pu_noise_cli.tables.reading import open_tables


@pytest.fixture
def pin(tmp_path) -> str:
    path = tmp_path / "psms.pin"
    path.write_text("\n".join(pin_lines()) + "\n")
    return str(path)


def read(path: str, columns: list[str], coded: str | None = None) -> dict[str, list[str]]:
    table = open_tables([path])
    rows: dict[str, list[str]] = {column: [] for column in columns}
    for batch in table.batches(columns, coded=coded):
        for column in columns:
            rows[column] += batch.rows[column].to_pylist()
    return rows


# Reading


@pytest.mark.parametrize("block", [100, 1 << 19])
def test_text_of_a_pin_file_that_is_not_utf8_is_found(block, tmp_path, monkeypatch):
    monkeypatch.setattr(pin_tables, "BLOCK_BYTES", block)
    lines = "\n".join(pin_lines(20)).encode().split(b"\n")
    lines[2 + 16] = lines[2 + 16].replace(b"K.", b"\xe9.")
    (tmp_path / "a.pin").write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match="row 17 is not UTF-8"):
        read(str(tmp_path / "a.pin"), ["Peptide"])


@pytest.mark.parametrize("block", [100, 1 << 19])
def test_a_pin_file_is_read_in_any_blocks(block, tmp_path, monkeypatch):
    monkeypatch.setattr(pin_tables, "BLOCK_BYTES", block)
    lines = pin_lines(20)
    path = tmp_path / "a.pin.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))  # the last line has no end
    assert open_tables([str(path)]).columns == (*HEADER, "Peptide", "Proteins")
    found = read(str(path), ["Proteins", "Label", "xcorr"], coded="Label")
    fields = [line.split("\t") for line in lines[2:]]
    assert found["Proteins"] == ["\t".join(f[9:]) for f in fields]
    assert found["xcorr"] == [f[5] for f in fields]
    assert found["Label"] == ["labeled" if f[1] == "-1" else "unlabeled" for f in fields]
    assert read(str(path), ["Label"])["Label"] == [f[1] for f in fields]  # as written


def test_the_interface_takes_no_pin_file(pin):
    with pytest.raises(UsageError, match="matches"):
        pu_noise_cli.estimate(table=pin, label_column="Label")


# Competition and q-values


def matches(score, labeled, spectrum=None) -> Matches:
    n = len(score)
    keys = {"spectrum": np.arange(n, dtype=np.uint64) if spectrum is None else spectrum}
    return Matches(np.arange(n), np.asarray(score, float), np.asarray(labeled, bool), keys)


def test_the_best_of_each_spectrum_stands_for_it():
    spectrum = np.array([7, 7, 3, 3, 3, 9], np.uint64)
    found = matches([0.1, 0.9, 0.5, 0.2, 0.4, 0.3], [1, 0, 0, 1, 1, 1], spectrum).best("spectrum")
    assert list(found.row) == [1, 2, 5]
    tied = matches(np.zeros(20_000), np.arange(20_000) % 2, np.arange(20_000, dtype=np.uint64) // 2)
    assert tied.best("spectrum").labeled.mean() == pytest.approx(0.5, abs=0.02)  # by lot


def test_q_values_count_decoys():
    score = [10, 9, 8, 7, 6, 5, 4, 3]
    found = q_values(matches(score, [0, 0, 0, 0, 1, 0, 0, 1]), 1.0)
    # before the first decoy (0 + 1) / 4, after it (1 + 1) / 6
    assert found[3] == pytest.approx(1 / 4)
    assert found[6] == pytest.approx(2 / 6)
    assert (np.diff(found) >= 0).all()
    assert len(set(found[:4])) == 4
    tied = q_values(matches([5, 5, 5, 1], [0, 0, 1, 0]), 1.0)
    assert len(set(tied[:3])) == 1


@pytest.mark.parametrize("correct", [400, 20_000])
def test_q_values_hold_what_they_say(correct):
    rng = np.random.default_rng(5)
    rates = []
    for _ in range(100):
        wrong, decoys = rng.poisson(4000), rng.poisson(4000)
        score = np.concatenate([rng.normal(3.5, 1, correct), rng.normal(size=wrong + decoys)])
        labeled = np.arange(len(score)) >= correct + wrong
        accepted = ~labeled & (q_values(matches(score, labeled), 1.0) <= 0.01)
        rates.append(accepted[correct:].sum() / max(accepted.sum(), 1))
    assert 0.008 < np.mean(rates) < 0.0115


# Decoys


def test_decoys_that_can_be_told_from_wrong_targets_are_told_of():
    rng = np.random.default_rng(3)
    labeled = np.arange(9000) >= 5000
    fair = matches(rng.normal(size=9000) + 3 * (np.arange(9000) < 1000), labeled)
    assert check_decoys(fair, ("x",)) == ()
    unfair = matches(fair.score - 0.3 * labeled, labeled)
    (notice,) = check_decoys(unfair, ("x", "y"))
    assert notice.code == "decoys-not-typical"
    assert "--drop-columns x,y" in notice.message


def test_the_features_that_tell_decoys_are_named():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6000, 3)).astype(np.float32)
    labeled = np.arange(6000) < 3000
    x[labeled, 1] += 0.5
    x[5000:, 0] += 4  # correct targets, which do not count
    scores = 1 / (1 + np.exp(x[:, 0].astype(float)))
    training = Training(x, labeled)
    assert discriminating_features(training, scores, ["a", "b", "c"]) == ("b",)


@pytest.mark.usefixtures("full_training")
def test_the_second_round_learns_from_what_the_first_set_apart():
    rng = np.random.default_rng(6)
    labeled = np.arange(4000) < 1500
    x = rng.normal(size=(4000, 4)).astype(np.float32)
    x[3000:] += 1.5  # of the 2,500 unlabeled rows, 1,500 are as the labeled ones are
    fits = {
        name: CLASSIFIERS[name](Training(x, labeled), seed=0, threads=1, progress=lambda _: None)
        for name in ("networks", "semi-supervised")
    }
    apart = set_apart(fits["networks"].scores, labeled)
    assert not (apart & labeled).any()
    assert apart[3000:].mean() > 0.5 > 0.1 > apart[:3000].mean()
    wrong, right = fits["semi-supervised"].scores[1500:3000], fits["semi-supervised"].scores[3000:]
    # rows that it did not learn from score as labeled ones do
    assert abs((wrong > np.median(fits["semi-supervised"].scores[:1500])).mean() - 0.5) < 0.05
    assert (right[:, None] < wrong).mean() > 0.97
