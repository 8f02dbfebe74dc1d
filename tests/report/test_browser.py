"""The report in a real browser: it draws, it answers, and nothing in it runs or calls out."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import report_samples as samples
from conftest import call_quietly
from msgspec.structs import replace
from report_samples import render

from pu_noise_cli.score.sketch import Sketch

pytest.importorskip("websocket", reason="the websocket-client package is not installed")

from browser import chromium, find_chromium

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium on the PATH: the report is not seen in a browser"
)
CHARTS = {  # by page
    "plain": 12,
    "hostile": 10,
    "few": 11,
    "target": 10,
    "negatives": 10,
    "without": 5,
    "decoys": 9,
    "run": 11,
    "evidence": 11,
    "groups": 11,
    "verdicts": 10,
    "search": 3,
}
MODES = ("run", "evidence", "groups", "negatives", "verdicts", "search")
PHONE, DESK = 420, 1300
AXE = Path(__file__).parents[2] / ".venv/axe/node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    def of(found: Sketch, target_alpha: float | None = None):
        return samples.content_of(found, samples.prior(found), target_alpha)

    folder = tmp_path_factory.mktemp("pages")
    made = {
        "plain": samples.page(method="all"),
        "hostile": samples.page(samples.HOSTILE),
        "few": render(of(samples.few_positives())),
        "target": render(of(samples.sketch(), 0.05)),
        "negatives": render(of(samples.with_negatives())),
        "without": render(
            samples.content_of(
                samples.without_unlabeled(), samples.stated(samples.without_unlabeled(), 0.2, 0.9)
            )
        ),
        "decoys": render(samples.content_of(samples.decoys(), samples.prior_of_decoys())),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    run_modes(folder)
    return {name: folder / f"{name}.html" for name in CHARTS}


def run_modes(folder: Path) -> None:
    """Write the reports of runs in several modes."""
    rng = np.random.default_rng(1)
    n_labeled, n = 200, 1200
    positive = np.append(np.ones(n_labeled, bool), rng.random(n) < 0.3)
    score = np.where(positive, rng.beta(6, 2, n + n_labeled), rng.beta(2, 5, n + n_labeled))
    rows = pd.DataFrame({"id": [f"v{i}" for i in range(n + n_labeled)], "score": score.round(4)})
    rows["known"] = (np.arange(len(rows)) < n_labeled).astype(int)
    rows["gene"] = rng.choice([f"GENE{i}" for i in range(12)], len(rows))
    rows["x"] = rng.normal(size=len(rows)) + positive
    rows.to_csv(folder / "rows.csv", index=False)
    table = ("--table", folder / "rows.csv", "--label-column", "known", "--id-column", "id")
    scored = (*table, "--score-column", "score", "--keep-columns", "gene")
    learned = ("--classifier", "logistic", "--drop-columns", "gene")
    by_gene = (*table, "--score-column", "score", "--by", "gene")
    decoy = rng.random(n) < 0.5
    match = rng.normal(size=n) + 4 * (~decoy & (rng.random(n) < 0.4))
    lines = ["SpecId\tLabel\tScanNr\tfirst\tsecond\tPeptide\tProteins"]
    lines += [
        f"s{i}\t{-1 if decoy[i] else 1}\t{i}\t{match[i]:.4f}\t{rng.normal():.4f}"
        f"\tK.{'DEC' if decoy[i] else 'PEP'}{i}.R\tprotein{i % 50}"
        for i in range(n)
    ]
    (folder / "search.pin").write_text("\n".join(lines) + "\n")
    for name, command in {
        "run": ("run", *table, *learned),
        "evidence": ("calibrate", *scored, "--target-alpha", 0.0441),
        "groups": ("run", *by_gene),
        "search": ("matches", folder / "search.pin"),
    }.items():
        call_quietly(*command, "--out-dir", folder / name)
        shutil.copy(folder / name / "report.html", folder / f"{name}.html")
    scores = ("--scores", folder / "evidence/scores.parquet")
    audit = folder / "audit.tsv"
    drawn = ("--prior", folder / "evidence/prior.json", "--rows", 60, "--out", audit)
    call_quietly("audit", *scores, *drawn)
    verdicts = pd.read_csv(audit, sep="\t")
    verdicts["verdict"] = np.where(positive[verdicts["row"] - 1], "yes", "no")
    verdicts.to_csv(audit, sep="\t", index=False)
    verified = folder / "verified.json"
    call_quietly("estimate-prior", *scores, "--verdicts", audit, "--out", verified)
    call_quietly("report", *scores, "--prior", verified, "--out", folder / "verdicts.html")


def open_all(page) -> None:
    """Open what is collapsed, and wait for its charts."""
    page.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait("!document.querySelector('.chart:not([data-drawn])')")


def odd_content(kind: str):
    """Reports that have less to draw than others."""
    plain = samples.sketch()
    if kind == "other rows":  # no elbow can be found for the curves
        return samples.content_of(plain, replace(samples.prior(plain, "msgmm"), n_labeled=5))
    if kind == "no curves":
        return samples.content_of(plain, replace(samples.prior(plain), curves={}, estimates=()))
    found = {
        "ties": Sketch.from_samples(np.repeat([0.5, 1], [10, 40]), np.repeat([0.5, 1], [70, 10])),
        "huge": Sketch.from_samples(np.linspace(0, 1e300, 50), np.linspace(-1e300, 1, 80)),
        "two values": Sketch.from_samples(
            np.repeat([0.0, 1], [5, 45]), np.repeat([0.0, 1], [60, 20])
        ),
    }[kind]
    return samples.content_of(found, samples.prior(found))


@pytest.mark.parametrize("kind", ["other rows", "no curves", "ties", "huge", "two values"])
def test_odd_data_draw_without_complaint(kind, browser, tmp_path):
    (tmp_path / "odd.html").write_text(render(odd_content(kind)), encoding="utf-8")
    with browser.page(tmp_path / "odd.html") as page:
        open_all(page)
        assert page.js("document.querySelectorAll('.chart[data-drawn]').length") >= 6
        assert page.complaints == []


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", CHARTS)
def test_it_loads_alone_and_draws_every_chart(name, width, browser, pages):
    with browser.page(pages[name], width) as page:
        open_all(page)
        marks = page.js(
            """Array.from(document.querySelectorAll(".chart"), chart => [chart.id,
              Array.from(chart.querySelectorAll("svg .role-mark path, svg .role-mark line"))
                .filter(m => m.getBoundingClientRect().width + m.getBoundingClientRect().height > 2)
                .length])"""
        )
        assert len(marks) == CHARTS[name]
        assert [chart for chart, drawn in marks if drawn == 0] == []
        assert page.complaints == []
        assert page.requests == []
        assert page.js("window.harmed") is None


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_nothing_is_wider_than_the_window(name, width, browser, pages):
    with browser.page(pages[name], width) as page:
        open_all(page)
        assert page.js("document.documentElement.scrollWidth") <= width
        outside = page.js(
            f"""Array.from(document.querySelectorAll("svg, p, h1, h2, figure, .card, .table, li"))
              .filter(e => e.getBoundingClientRect().right > {width + 1}
                        || e.getBoundingClientRect().left < -1)
              .filter(e => !e.matches(".skip")).map(e => e.outerHTML.slice(0, 200))"""
        )
        assert outside == []


@pytest.mark.parametrize("name", sorted(set(CHARTS) - {"hostile"}))
def test_every_chart_answers_the_pointer_with_a_value(name, browser, pages):
    with browser.page(pages[name]) as page:
        open_all(page)
        charts = page.js("Array.from(document.querySelectorAll('.chart'), c => c.id)")
        said = {chart: hovered(page, chart) for chart in charts}
    assert [chart for chart, text in said.items() if not re.search(r"\d", text)] == []
    assert [chart for chart, text in said.items() if re.search("undefined|NaN|null", text)] == []


def hovered(page, chart: str) -> str:
    """What the tooltip says at the first place in a chart where it says something."""
    box = page.js(
        f"""(() => {{
          const chart = document.getElementById("{chart}");
          chart.scrollIntoView({{block: "center"}});
          const box = chart.querySelector(".background").getBoundingClientRect();
          return [box.left, box.top, box.width, box.height];
        }})()"""
    )
    left, top, width, height = box
    for row in (0.5, 0.8, 0.2, 0.95, 0.04):
        for column in range(1, 60):
            page.mouse("mouseMoved", left + width * column / 60, top + height * row)
            text = page.js(
                "document.querySelector('#vg-tooltip-element.visible')?.textContent ?? ''"
            )
            if text:
                return text
    return ""


def test_the_pointer_can_zoom_and_a_bare_wheel_scrolls_the_page(browser, pages):
    with browser.page(pages["plain"]) as page:
        left, top, width, height = page.js(
            """(() => { const chart = document.getElementById("chart-scores-unlabeled");
              chart.scrollIntoView({block: "center"});
              const box = chart.querySelector("svg").getBoundingClientRect();
              return [box.left, box.top, box.width, box.height]; })()"""
        )
        ticks = "document.querySelector('#chart-scores-unlabeled .role-axis-label').textContent"
        before, scrolled = page.js(ticks), page.js("window.scrollY")
        place = {"x": left + width / 2, "y": top + height / 2}
        page.mouse("mouseWheel", **place, deltaX=0, deltaY=-300, modifiers=2)
        page.wait(f"{ticks} !== {before!r}")
        assert page.js("window.scrollY") == scrolled
        after = page.js(ticks)
        page.mouse("mouseWheel", **place, deltaX=0, deltaY=120)
        page.wait(f"window.scrollY !== {scrolled}")
        assert page.js(ticks) == after


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plain", *MODES])
def test_text_and_marks_stand_out_in_light_and_dark(name, scheme, browser, pages):
    with browser.page(pages[name], scheme=scheme) as page:
        open_all(page)
        paper = page.js("getComputedStyle(document.documentElement).backgroundColor")
        assert (luminance(paper) < 0.1) == (scheme == "dark")
        texts = page.js(
            """(() => {
              const background = e => { for (; e; e = e.parentElement) {
                const c = getComputedStyle(e).backgroundColor;
                if (c !== "rgba(0, 0, 0, 0)" && c !== "transparent") return c; } };
              const pairs = new Set();
              for (const e of document.querySelectorAll("p, h1, h2, td, th, a, code, summary, li,"
                  + " small, strong, figcaption, caption, svg text")) {
                const style = getComputedStyle(e);
                pairs.add([e.closest("svg") ? style.fill : style.color, background(e)].join("|"));
              }
              return Array.from(pairs);
            })()"""
        )
        assert len(texts) > 3
        assert [pair for pair in texts if contrast(*pair.split("|")) < 4.5] == []
        marks = page.js(
            """Array.from(new Set(Array.from(document.querySelectorAll(
              "svg .mark-rect path, svg .mark-symbol path, svg .mark-line path"))
              .map(e => getComputedStyle(e))
              .flatMap(s => [s.fill, s.stroke]).filter(c => c.startsWith("rgb("))))"""
        )
        assert len(marks) >= (1 if name == "search" else 3)
        marks = [color for color in marks if color != paper]  # of hollow points
        assert [color for color in marks if contrast(color, paper) < 2.95] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_positives_and_negatives_differ_without_color(scheme, browser, pages):
    with browser.page(pages["plain"], scheme=scheme) as page:
        fills = page.js(
            """Array.from(new Set(Array.from(document.querySelectorAll(
              "#chart-scores-unlabeled .mark-rect path"), e => getComputedStyle(e).fill)
              .filter(c => c.startsWith("rgb("))))"""
        )
        ink = page.js("getComputedStyle(document.documentElement).color")
        positive, negative = (color for color in fills if color != ink)
        assert contrast(positive, negative) >= 3


@pytest.mark.parametrize("name", MODES)
def test_every_mode_prints_in_one_size_of_text_and_within_the_page(name, browser, pages):
    with browser.page(pages[name], scheme="dark") as page:
        page.media(scheme="dark", kind="print")
        widest = "Math.max(...Array.from(svgs, svg => svg.getBoundingClientRect().width))"
        page.wait(f"(svgs => {widest})(document.querySelectorAll('.chart svg')) < 568")
        paper = page.js("getComputedStyle(document.documentElement).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        widths = page.js(
            """Array.from(document.querySelectorAll(".chart svg"), svg => [
              svg.getBoundingClientRect().width, svg.viewBox.baseVal.width])"""
        )
        for drawn, own in widths:
            assert drawn == pytest.approx(own, rel=0.01), "a scaled chart has text of another size"
        assert page.js("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert page.complaints == []
        assert len(page.call("Page.printToPDF")["data"]) > 10_000


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make .venv/.axe")
@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", ["plain", *MODES])
def test_axe_finds_no_serious_violation(name, width, browser, pages):
    script = AXE.read_text()
    for scheme in ("light", "dark") if width == DESK else ("light",):
        with browser.page(pages[name], width, scheme=scheme) as page:
            page.js("document.querySelectorAll('.reviewers').forEach(d => { d.open = true; })")
            # rows are alike, and each of them costs axe a good while
            page.js(
                "document.querySelectorAll('tbody tr:nth-child(n+11)').forEach(r => r.remove())"
            )
            page.js(f"{script}; 0")
            found = page.js(
                """axe.run({exclude: [[".chart"]]}, {resultTypes: ["violations"]})
                  .then(r => r.violations
                  .filter(v => ["serious", "critical"].includes(v.impact))
                  .map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 150)).slice(0, 3)))"""
            )
            assert found == []


def test_candidates_can_be_searched_and_sorted(browser, pages):
    with browser.page(pages["run"]) as page:
        rows = "Array.from(document.querySelectorAll('#candidates .listing tbody tr'))"
        shown = f"{rows}.filter(r => !r.hidden).map(r => r.cells[0].textContent)"
        every = page.js(shown)
        assert len(every) == 200
        page.js("document.querySelector('#candidates input').focus()")
        page.call("Input.insertText", text=every[7])
        page.wait(f"{shown}.length < 200")
        assert every[7] in page.js(shown)
        page.js("document.querySelector('#candidates input').value = ''")
        page.js("document.querySelector('#candidates input').dispatchEvent(new Event('input'))")
        assert page.js(shown) == every
        scores = f"{rows}.map(r => parseFloat(r.cells[1].textContent))"
        head = "document.querySelectorAll('#candidates .listing th')[1]"
        for order in ("descending", "ascending"):
            page.js(f"{head}.querySelector('button').click()")
            assert page.js(f"{head}.ariaSort") == order
            values = page.js(scores)
            assert values == sorted(values, reverse=order == "descending")


def test_the_contents_stay_in_sight_on_a_wide_screen_only(browser, pages):
    for width, display in ((1300, "block"), (1000, "none")):
        with browser.page(pages["run"], width) as page:
            assert page.js("getComputedStyle(document.querySelector('nav')).display") == display
            if display == "block":
                page.js("window.scrollTo(0, 2000)")
                top = page.js("document.querySelector('nav ul').getBoundingClientRect().top")
                assert 0 <= top < 100


def test_the_keyboard_stops_only_at_tables_that_scroll(browser, pages):
    with browser.page(pages["run"], PHONE) as page:
        wrong = page.js(
            """Array.from(document.querySelectorAll(".table")).filter(t =>
              t.offsetParent && (t.tabIndex === 0) !== (t.scrollWidth > t.clientWidth + 1
                || t.scrollHeight > t.clientHeight + 1)).map(t => t.textContent.slice(0, 80))"""
        )
        assert wrong == []
        assert page.js("document.querySelectorAll('.table[tabindex]').length") >= 1


def test_a_report_opens_within_a_second(browser, pages):
    took = []
    for _ in range(3):  # the machine may be busy
        with browser.page(pages["run"]) as page:
            entry = "performance.getEntriesByType('navigation')[0]"
            took.append(page.js(f"{entry}.domContentLoadedEventEnd"))
    assert min(took) < 1000


def test_paper_is_white_even_where_the_screen_is_dark(browser, pages):
    with browser.page(pages["plain"], scheme="dark", kind="print") as page:
        assert page.js("getComputedStyle(document.documentElement).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        fill = page.js("getComputedStyle(document.querySelector('svg text')).fill")
        assert contrast(fill, "rgb(255, 255, 255)") > 7
        assert len(page.call("Page.printToPDF")["data"]) > 10_000


def test_the_keyboard_reaches_the_values_of_a_chart(browser, pages):
    with browser.page(pages["plain"]) as page:
        for _ in range(400):
            page.key("Tab", 9)
            if page.js("document.activeElement.parentElement.matches('details.values')"):
                break
        page.key("Enter", 13)
        page.wait("document.querySelector('details.values[open] table')")
        shown = page.js("document.querySelector('details.values[open] table').textContent")
        assert "score from" in shown
        assert page.js("document.querySelectorAll('details.values[open] tbody tr').length") == 64


def test_every_chart_has_a_text_and_every_heading_its_order(browser, pages):
    with browser.page(pages["plain"]) as page:
        texts = page.js(
            "Array.from(document.querySelectorAll('[role=img]:has(> .chart)'), c => c.ariaLabel)"
        )
        assert len(texts) == CHARTS["plain"]
        assert all(len(text) > 40 for text in texts)
        levels = page.js("Array.from(document.querySelectorAll('h1, h2, h3'), h => h.tagName)")
        assert levels[0] == "H1"
        assert levels[1] == "H2"
        assert set(levels[2:]) == {"H2", "H3"}


def test_the_policy_stops_what_an_attacker_would_add(browser, pages, tmp_path):
    page = pages["plain"].read_text(encoding="utf-8")
    harmed = tmp_path / "harmed.html"
    script = '<script>window.harmed = 1</script><img src=x onerror="window.harmed = 2">'
    harmed.write_text(
        page.replace('<main id="main">', f'<main id="main">{script}'), encoding="utf-8"
    )
    with browser.page(harmed) as page:
        assert page.js("window.harmed") is None
        assert "Content Security Policy" in " ".join(page.complaints)
