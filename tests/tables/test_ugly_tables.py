"""Tables as people have them: each is read right, or refused with what to do about it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from conftest import small_frames

LABELED, UNLABELED = small_frames()


def csv(frame, **how) -> str:
    return frame.to_csv(index=False, **how)


def european(frame, **how) -> str:
    return csv(frame, sep=";", decimal=",", **how)


def percent(frame, mark="%") -> str:
    return csv(frame.map(lambda v: f"{v * 100:.4f}{mark}"))


def replaced(value, every=8):
    """The table with a text in every so many rows of column a."""

    def change(frame):
        frame = frame.astype(object)
        frame.loc[::every, "a"] = value
        return csv(frame)

    return change


def column(values, name="x"):
    """The table with a further column, of values that repeat."""

    def change(frame):
        return csv(frame.assign(**{name: [values[i % len(values)] for i in range(len(frame))]}))

    return change


def lines(change):
    return lambda frame: "".join(change(csv(frame).splitlines(keepends=True)))


# how the table is written, and the name of its file: read as the clean one is
SAME = {
    "semicolons": ("csv", lambda f: csv(f, sep=";")),
    "European": ("csv", european),
    "European, quoted": ("csv", lambda f: european(f, quoting=1)),
    "European in CRLF": ("csv", lambda f: european(f, lineterminator="\r\n")),
    "European, BOM": ("csv", lambda f: "\ufeff" + european(f)),
    "European as .txt": ("txt", european),
    "European as .tsv": ("tsv", european),
    "sep= line": ("csv", lambda f: "sep=;\n" + european(f)),
    "sep= line, quoted, BOM": ("csv", lambda f: '\ufeff"sep=;"\r\n' + european(f)),
    "sep= line of tabs": ("csv", lambda f: "sep=\t\n" + csv(f, sep="\t")),
    "tabs in .csv": ("csv", lambda f: csv(f, sep="\t")),
    "tabs and decimal commas": ("tsv", lambda f: csv(f, sep="\t", decimal=",")),
    "commas in .tsv": ("tsv", csv),
    "bars": ("csv", lambda f: csv(f, sep="|")),
    "quoted": ("csv", lambda f: csv(f, quoting=1)),
    "quoted decimal commas": ("csv", lambda f: csv(f, quoting=1, decimal=",")),
    "single quotes": ("csv", lambda f: csv(f, quoting=1, quotechar="'")),
    "BOM": ("csv", lambda f: "\ufeff" + csv(f)),
    "CRLF": ("csv", lambda f: csv(f, lineterminator="\r\n")),
    "CR": ("csv", lambda f: csv(f, lineterminator="\r")),
    "UTF-16": ("csv", lambda f: csv(f).encode("utf-16")),
    "UTF-16, tabs, as .txt": ("txt", lambda f: csv(f, sep="\t").encode("utf-16")),
    "UTF-16, European": ("csv", lambda f: european(f).encode("utf-16")),
    "comments": ("csv", lambda f: "# made by hand\n# twice\n" + csv(f)),
    "header in a comment": ("csv", lambda f: "#" + csv(f)),
    "bcftools' header": ("tsv", lambda f: "# [1]a\t[2]b\t[3]c\n" + csv(f, sep="\t", header=False)),
    "blank lines": ("csv", lines(lambda rows: [*rows[:9], "\n", *rows[9:], "\n\n"])),
    "blank line first": ("csv", lambda f: "\n" + csv(f)),
    "trailing commas": ("csv", lines(lambda rows: [row.strip() + ",,\n" for row in rows])),
    "spaces around values": ("csv", lambda f: csv(f).replace(",", " , ")),
    "scientific notation": ("csv", lambda f: csv(f.map(lambda v: f"{v:.17e}"))),
    "plus signs": ("csv", lambda f: csv(f.map(lambda v: f"{v:+.6f}"))),
    "minus signs as typeset": ("csv", lambda f: csv(f).replace("-", "\u2212")),
    "workbook": ("xlsx", None),
    "no newline at the end": ("csv", lambda f: csv(f).rstrip()),
}
# refused: what the message says, and what to type
REFUSED = {
    "n.d.": (replaced("n.d."), "'n.d.' in row 1 ", "--na 'n.d.'"),
    "n.d. in half": (replaced("n.d.", 2), "'n.d.'", "--na 'n.d.'"),
    "n.d. in 5%": (replaced("n.d.", 20), "'n.d.'", "--na 'n.d.'"),
    "ND": (replaced("ND", 5), "'ND'", "--categorical a"),
    "below detection": (replaced("<0.1"), "'<0.1'", "--na '<0.1'"),
    "#DIV/0!": (replaced("#DIV/0!"), "'#DIV/0!'", "--na '#DIV/0!'"),
    "#REF!": (replaced("#REF!", 3), "'#REF!'", "--na '#REF!'"),
    "#NAME?": (replaced("#NAME?", 3), "'#NAME?'", "--na '#NAME?'"),
    "one decimal comma": (replaced("1,5", 400), "'1,5'", "--decimal ','"),
    "some decimal commas": (replaced("1,5", 3), "'1,5'", "--decimal ','"),
    "some percent signs": (replaced("15 %", 3), "percent sign", "--drop-columns a"),
    "lists of dbNSFP": (replaced("0.048;.;0.048", 2), "'0.048;.;0.048'", "--drop-columns a"),
    "only lists": (column(["0.1;0.2", "0.3;.;1"]), "separated by ';'", "--drop-columns x"),
    "lists of VEP": (column(["0.1&0.2", "3"]), "separated by '&'", "+split-vep"),
    "lists of alleles": (column(["0.1,0.9", "0.5"]), "separated by ','", "bcftools norm -m-"),
    "unclear thousands": (
        lambda f: column(["1,234", "567"])(f.mul(100).round().astype(int)),
        "1.234 or 1234",
        "--decimal '.'",
    ),
    "chromosomes": (column([*map(str, range(1, 23)), "X", "Y"]), "'X'", "--categorical x"),
    "bounds": (column(["<1", "<2", ">5", "3"]), "'<1'", "--categorical x"),
    "units": (column([f"{i} mg" for i in range(40)]), "'0 mg'", "--categorical x"),
    "duplicate header": (lambda f: csv(f).replace("a,b", "a,a", 1), "'a' appears 2", "rename"),
    "no header": (lambda f: csv(f, header=False), "of the columns", "line of names"),
    "title": (lambda f: "Table S1\n" + csv(f), "'Table S1'", "tail -n +2"),
    "row names of R": (
        lambda f: "a,b,c\n" + f.to_csv(header=False),
        "header names 3",
        "a name before",
    ),
    "pandas' index": (lambda f: f.to_csv(), "no name", "name it"),
    "latin-1": (lambda f: column(["é", "a"])(f).encode("latin-1"), "not UTF-8", "iconv"),
    "VCF": (
        lambda f: "##fileformat=VCFv4.2\n##INFO=<ID=CADD,Number=1,Type=Float>\n#CHROM\tPOS\n",
        "VCF file",
        "%INFO/CADD",
    ),
    "spaces": (lambda f: csv(f, sep=" "), "separated by spaces", "sed -E"),
    "semicolons and commas": (
        lambda f: "x, a;b\n" + "1, 2;3\n" * 30,
        "commas (2 columns)",
        "--delimiter",
    ),
    "points that may be thousands": (
        lambda f: "a;b\n" + "1.234;2.345\n" * 30,
        "1.234 or 1234",
        "--decimal",
    ),
    "comment among rows": (lines(lambda r: [*r[:9], "# here\n", *r[9:]]), "row 9 has 1", "grep -v"),
    "comma in a value": (lines(lambda r: [*r[:9], "1,2,3,4\n", *r[9:]]), "row 9 has 4", "quote"),
    "workbook as .csv": (lambda f: b"PK\x03\x04" + bytes(99), ".xlsx", "name it so"),
    "infinite": (replaced("inf", 400), "infinite", "--na inf"),
}


def write(folder, suffix, how) -> list[object]:
    """Write both tables; the command that estimates from them."""
    command = ["estimate-prior", "--classifier", "logistic"]
    for frame, name in ((LABELED, "labeled"), (UNLABELED, "unlabeled")):
        path = folder / f"{name}.{suffix}"
        if how is None:
            frame.to_excel(path, index=False)
        else:
            content = how(frame)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        command += [f"--{name}", path]
    return command


@pytest.fixture(scope="module")
def clean() -> dict:
    return {}


@pytest.mark.parametrize("case", SAME)
def test_read_right(case, punoise, tmp_path, clean):
    if not clean:
        (tmp_path / "clean").mkdir()
        clean["prior"] = punoise(*write(tmp_path / "clean", "csv", csv)).out
    assert punoise(*write(tmp_path, *SAME[case])).out == clean["prior"]


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_what_to_type(case, punoise, tmp_path):
    how, what, remedy = REFUSED[case]
    result = punoise(*write(tmp_path, "csv", how), expect=3)
    assert what in result.err
    assert remedy in result.err


def test_what_is_offered_works(punoise, tmp_path):
    command = write(tmp_path, "csv", replaced("n.d."))
    result = punoise(*command, "--na", "n.d.")
    assert "3 columns (3 numeric)" in result.err
    (tmp_path / "european").mkdir()
    found = punoise(*write(tmp_path / "european", "csv", european))
    assert "separated by semicolons" in found.err


def test_percentages_are_fractions(punoise, tmp_path):
    priors = []
    for name, how in {
        "clean": lambda f: csv(f.map(lambda v: f"{v * 100:.4f}e-2")),
        "percent": percent,
        "spaced": lambda f: percent(f, " %"),
    }.items():
        (tmp_path / name).mkdir()
        priors.append(punoise(*write(tmp_path / name, "csv", how)).out)
    assert priors[0] == priors[1] == priors[2]


def test_thousands(punoise, tmp_path):
    priors = []
    for name, how in {"clean": "{:.2f}", "grouped": "{:,.2f}", "spaced": "{:_.2f}"}.items():
        (tmp_path / name).mkdir()
        frames = lambda f, how=how: csv(f.map(lambda v: how.format(v * 1e4).replace("_", " ")))  # noqa: E731
        priors.append(punoise(*write(tmp_path / name, "csv", frames)).out)
    assert priors[0] == priors[1] == priors[2]


@pytest.mark.parametrize("how", ["European", "workbook"])
def test_audits_come_back_from_a_spreadsheet(how, punoise, results, tmp_path):
    given = ("--scores", results / "scores.parquet", "--prior", results / "prior.json")
    punoise("audit", *given, "--rows", 40, "--out", tmp_path / "audit.csv")
    audit = pd.read_csv(tmp_path / "audit.csv").assign(verdict=["yes", "no"] * 20)
    audit.to_csv(tmp_path / "plain.csv", index=False)
    back = tmp_path / ("back.csv" if how == "European" else "back.xlsx")
    if how == "European":
        audit.to_csv(back, index=False, sep=";", decimal=",")
    else:
        audit.to_excel(back, index=False)
    plain, found = (
        punoise("estimate-prior", *given[:2], "--verdicts", file).prior
        for file in (tmp_path / "plain.csv", back)
    )
    assert found == plain


def test_sheets(punoise, tmp_path):
    command = write(tmp_path, "xlsx", None)
    with pd.ExcelWriter(tmp_path / "labeled.xlsx") as book:
        pd.DataFrame({"note": ["see the other sheet"]}).to_excel(book, sheet_name="about")
        LABELED.to_excel(book, sheet_name="rows", index=False)
    UNLABELED.to_csv(tmp_path / "unlabeled.csv", index=False)
    command[-1] = tmp_path / "unlabeled.csv"
    result = punoise(*command, "--sheet", "none", expect=3)
    assert "'about', 'rows'" in result.err
    punoise(*command, "--sheet", "rows")


def test_label_values(punoise, tmp_path):
    frame = pd.concat([LABELED.assign(ec="1.1.1.1"), UNLABELED.assign(ec="")])
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("estimate-prior", "--classifier", "logistic", "--table", tmp_path / "t.csv")
    found = punoise(*given, "--label-column", "ec", "--labeled-value", "*").prior
    assert (found["n_labeled"], found["n_unlabeled"]) == (150, 400)
    result = punoise(*given, "--label-column", "ec", "--labeled-value", "Enzyme", expect=3)
    for name in ("'Enzyme'", "'ec'", "'' (400), '1.1.1.1' (150)"):
        assert name in result.err


def test_columns_that_are_warned_of(punoise, tmp_path):
    def change(frame):
        days = [f"2021-03-{1 + i % 28:02}" for i in range(len(frame))]
        genes = [("1-Mar" if i == 3 else f"G{i}") for i in range(len(frame))]
        return csv(frame.assign(number=range(len(frame)), day=days, gene=genes))

    command = write(tmp_path, "csv", change)
    found = punoise(*command, "--id-column", "gene").prior["warnings"]
    messages = {warning["code"]: warning["message"] for warning in found}
    assert "--id-column number" in messages["identifier-like-column"]
    assert "'day' has dates" in messages["date-column"]
    assert "'1-Mar' in row 4" in messages["names-as-dates"]


@pytest.mark.parametrize("starts", [(0, 0), (1, 1), (0, len(LABELED)), (len(UNLABELED) + 1, 1)])
def test_row_numbers_are_left_out(starts, punoise, tmp_path):
    def change(frame):
        start = starts[len(frame) == len(UNLABELED)]
        return csv(frame.assign(row=range(start, start + len(frame))))

    without = punoise(*write(tmp_path, "csv", csv)).prior
    command = write(tmp_path, "csv", change)
    found = punoise(*command).prior
    assert found["alpha"] == without["alpha"]
    assert "column 'row'" in found["warnings"][0]["message"]
    kept = punoise(*command, "--features", "a,b,c,row").prior
    assert not any("left out" in warning["message"] for warning in kept["warnings"])


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: [*range(n - 1), n],  # a gap
        lambda n: range(100, 100 + n),  # from another number
        lambda n: range(0, 2 * n, 2),
    ],
    ids=["gap", "start", "step"],
)
def test_other_sequences_are_features(numbers, punoise, tmp_path):
    command = write(tmp_path, "csv", lambda f: csv(f.assign(position=numbers(len(f)))))
    found = punoise(*command)
    assert "from 4 columns" in found.err


def test_positions_of_one_table_are_features(punoise, tmp_path):
    rows = pd.concat([LABELED.assign(known=1), UNLABELED.assign(known=0)])
    rows = rows.sample(frac=1, random_state=0).assign(position=range(1, len(rows) + 1))
    rows.to_csv(tmp_path / "t.csv", index=False)
    given = ("--table", tmp_path / "t.csv", "--label-column", "known", "--classifier", "logistic")
    assert "from 4 columns" in punoise("estimate-prior", *given).err
    rows.rename(columns={"position": "index"}).to_csv(tmp_path / "t.csv", index=False)
    assert "from 3 columns" in punoise("estimate-prior", *given).err


def test_a_leak_is_named_as_a_column(punoise, tmp_path):
    def change(frame):
        return csv(frame.assign(source="lab" if len(frame) == len(LABELED) else "web"))

    found = punoise(*write(tmp_path, "csv", change)).prior["warnings"]
    message = next(w["message"] for w in found if w["code"] == "leaking-column")
    assert re.search(r"--drop-columns source\b", message)


def test_by_a_measurement(punoise, tmp_path):
    command = write(tmp_path, "csv", lambda f: csv(f.assign(d=f["a"])))
    out = ("--by", "d", "--groups-out", tmp_path / "groups.tsv")
    assert "measurement" in punoise(*command, *out, expect=3).err
    command = write(tmp_path, "csv", lambda f: csv(f.assign(d=range(len(f)))))
    assert "--id-column" in punoise(*command, *out, expect=3).err


def test_options_are_given_once(punoise, tables):
    result = punoise("estimate-prior", *tables, "--seed", 1, "--seed", 2, expect=2)
    assert "--seed is given 2 times" in result.err
    json.loads(punoise("estimate-prior", *tables, "--na", "x", "--na", "y", "-q", "-q").out)


def test_rows_longer_than_a_block(punoise, tmp_path):
    """A row that does not fit the small blocks in which narrow tables are read."""
    long = "x" * 1_500_000

    def change(frame):
        names = [long if i == 50 else f"n{i}" for i in range(len(frame))]
        return csv(frame.assign(name=names))

    found = punoise(*write(tmp_path, "csv", change), "--drop-columns", "name").out
    assert found == punoise(*write(tmp_path, "csv", csv)).out


def test_text_far_below_numbers(punoise, tmp_path):
    """A column is read as numbers until text is found in it, which is then named with its row."""

    def change(frame):
        column = frame["a"].astype(object)
        column.iloc[-1] = "n.d."
        return csv(frame.assign(a=column))

    message = punoise(*write(tmp_path, "csv", change), expect=3).err
    assert "column 'a'" in message
    assert "'n.d.'" in message
    assert "--na 'n.d.'" in message


def test_text_among_numbers_is_named_for_each_column(punoise, tmp_path):
    """Chromosomes are text; other columns have a placeholder of their own, quoted for the shell."""

    def change(frame):
        chromosome = np.resize(["1", "2", "X", "Y"], len(frame))
        measured = frame["a"].astype(str).where(np.arange(len(frame)) % 3 > 0, "n.d.")
        return csv(frame.assign(a=measured).assign(**{"on chromosome": chromosome}))

    command = write(tmp_path, "csv", change)
    message = punoise(*command, expect=3).err
    assert "--na 'n.d.'" in message
    assert "'on chromosome' ('X')" in message
    message = punoise(*command, "--na", "n.d.", expect=3).err
    assert "--categorical 'on chromosome'" in message
    assert "--na" not in message
