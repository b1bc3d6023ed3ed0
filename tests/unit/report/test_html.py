"""The HTML report: one file, well formed, safe, and working in a browser."""

from __future__ import annotations

import dataclasses
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from skymark.machine.fitness import fitness_warnings
from skymark.model.effort import Allotment
from skymark.model.errors import SkymarkError
from skymark.model.machine import SIMULATED
from skymark.model.manifest import Pair
from skymark.model.record import Cause, Status
from skymark.report.html import code, render, write_html
from skymark.report.terminal import print_report
from skymark.report.text import facts_of
from skymark.report.verdicts import comparing_command, verdicts_of
from skymark.rundir.reader import Run, open_run
from tests.conftest import BROWSERS

VOID = {"meta", "br", "link", "img", "input", "hr"}
SELF_CLOSING = {"rect", "line", "circle"}


class Outline(HTMLParser):
    """Collects what the tests ask for, and complains of a tag that is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.addresses: list[str] = []
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, dict(attributes))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSING
        self._note(tag, dict(attributes))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, tag: str, attributes: dict[str, str | None]) -> None:
        if identity := attributes.get("id"):
            self.ids.append(identity)
        for name in ("href", "src", "xlink:href", "action"):
            if value := attributes.get(name):
                (self.targets if value.startswith("#") else self.addresses).append(value)
        if tag == "svg" and not attributes.get("aria-label"):
            self.unnamed.append(tag)


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    found.close()
    return found


@pytest.fixture(scope="module")
def page(saved: Run) -> str:
    return render(saved)


def test_the_page_is_well_formed(page: str) -> None:
    found = outline(page)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))


def test_every_link_leads_somewhere_in_the_page(page: str) -> None:
    found = outline(page)
    assert {target[1:] for target in found.targets} <= set(found.ids)


def test_the_page_asks_for_nothing_from_anywhere(page: str) -> None:
    assert outline(page).addresses == []
    assert not re.findall(r"https?:|url\(|@import|//[a-z]+\.", page)
    assert "default-src 'none'" in page


def test_every_chart_says_in_words_what_it_shows(page: str) -> None:
    assert outline(page).unnamed == []
    assert "95 % interval" in page


def test_a_line_parts_the_groups_whose_order_is_shown(page: str) -> None:
    table = page.split("<h3", 2)[1]
    rows = re.findall(r'<tr( class="[\w ]+")?>\n<th scope="row"[^>]*>([\w.]+)', table)
    assert [kind for kind, _ in rows] == [
        ' class="leads wins"',
        ' class="opens"',
        "",
        ' class="opens"',
    ]
    assert '<td data-value="2">2–3</td>' in table
    assert "Within a group" in page


def test_adapters_that_cannot_be_told_apart_are_marked_as_a_group(page: str) -> None:
    table = page.split("<h3", 2)[1]
    assert re.findall(r'class="tied"[^>]*>([\w.]+)', table) == ["Google", "PyTorch"]


def test_each_row_shows_the_distribution_of_its_samples(sampled: Run) -> None:
    html = render(sampled)
    assert outline(html).open == []
    assert outline(html).unnamed == []
    assert html.count('<path class="shape" d="M0 20V') == len(sampled.records)
    assert re.search(r"[\d,]+ waits, ms: .*\d", html)


def test_samples_that_cannot_be_read_are_named_on_the_page(sampled: Run, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(sampled.directory, tmp_path / "run"))
    id = sampled.records[0].cell.id
    (copied / "samples" / f"{id}.parquet").write_bytes(b"PAR1")
    html = render(open_run(copied))
    assert f"Unreadable: samples/{id}.parquet: " in html
    assert html.count('<path class="shape"') == len(sampled.records) - 1


def test_a_priced_run_shows_speed_against_price(sampled: Run, page: str) -> None:
    html = render(sampled)
    chart = html.split('<details class="prices">', 1)[1].split("</details>", 1)[0]
    assert chart.count("<circle") == len(sampled.records)
    assert "PyTorch DataLoader: 96" in chart
    assert '<details class="prices">' not in page


def test_set_up_stands_beside_the_rate_and_the_rate_is_spread_over_epochs(
    make: ModuleType, tmp_path: Path
) -> None:
    spread = {f"samples_per_s_over_{n}_epochs": 900.0 + n / 2 for n in (1, 10, 100)}
    more = spread | {"epoch_restart_ns": 5e6}
    rounds = [
        one.model_copy(update={"metrics": one.metrics | more}) for one in make.rounds_of(1000)
    ]
    records = [make.measured(make.cell("TAB-1", "numpy"), rounds)]
    html = render(open_run(make.write_run(tmp_path / "run", records)))
    headings = re.findall(r'<button type="button"[^>]*>([^<]+)</button>', html)
    at = headings.index("× numpy")
    assert headings[at + 2 : at + 4] == ["restart ms", "set-up ms"]
    assert headings.count("restart ms") == 1
    assert re.search(": 1 900, 10 905, 100 950", html)


def test_every_cell_tells_what_was_checked(page: str, saved: Run) -> None:
    section = page.split('id="verification"', 1)[1].split('id="warnings"', 1)[0]
    checked = [record for record in saved.records if record.verification is not None]
    assert section.count('<span class="status ok">passed') == 5
    assert section.count(">invalid</span>") == 2  # its row, and the word in the sentence
    assert section.count("8,000") == len(checked)
    assert "5 of 6 " in section


def test_cells_that_are_not_ranked_show_why(page: str) -> None:
    for text in (
        "standardise stage",
        "killed by signal 9",
        "no result after 60 s",
        "needs an NVIDIA GPU",
        "no worker-invariant shuffle",
        "logs/loading.TAB-1.small.webdataset.log",
    ):
        assert text in page


def cards_of(html: str) -> str:
    return html.split('<ul class="cards"', 1)[1].split("</ul>", 1)[0]


def words_of(html: str) -> str:
    """The text of a page's part, without tags."""
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


def test_the_title_is_the_question_and_a_card_has_the_answer(page: str, saved: Run) -> None:
    question = "Which loader is fastest on TAB-1 and PC-1?"
    assert f"<title>{question} · skymark</title>" in page
    assert f"<h1>{question}</h1>" in page
    assert page.index('class="cards"') < page.index('class="tiles"')
    card = words_of(cards_of(page))
    answer = verdicts_of(saved)[0].sentences[0]
    assert card.startswith(f'aria-label="Verdicts"> ✓ Decided {answer}')
    assert "skymark tune --profile ci_cpu --scenarios TAB-1:small --adapters tfdata" in card
    assert cards_of(page).count("<svg") == 4


def test_an_undecided_scenario_has_a_mark_no_tick_and_a_command_that_decides_it(
    make: ModuleType, tmp_path: Path
) -> None:
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(speed, name=name, noise=0.05))
        for name, speed in (("numpy", 1000), ("grain", 1010))
    ]
    run = open_run(make.write_run(tmp_path / "run", records))
    html = render(run)
    card = words_of(cards_of(html))
    assert f"? Undecided {verdicts_of(run)[0].sentences[0]}" in card
    assert "✓" not in html.split('id="verification"')[0].split("<body>")[1]
    assert 'class="leads wins"' not in html
    wanted = "skymark run --profile ci_cpu --scenarios TAB-1:small --adapters "
    assert wanted in card
    assert card.endswith("--goal best")
    assert f"skymark run --plan {run.directory.name}" in words_of(html)


def test_the_command_that_decides_a_combination_of_settings_sets_them(
    make: ModuleType, tmp_path: Path
) -> None:
    tried = {"axes": {"workers": 4}, "settings": {"workers": 4, "prefetch": 2}}
    records = [
        make.measured(
            make.cell("TAB-1", name).model_copy(update=tried),
            make.rounds_of(speed, name=name, noise=0.05),
        )
        for name, speed in (("numpy", 1000), ("grain", 1010))
    ]
    run = open_run(make.write_run(tmp_path / "run", records))
    card = words_of(cards_of(render(run)))
    assert "--set workers=4" in card
    assert "--axis" not in card


def test_commands_and_options_in_advice_are_set_as_code() -> None:
    shown = code("`skymark doctor` & --time, not a--b")
    assert shown == "<code>skymark doctor</code> &amp; <code>--time</code>, not a--b"


def test_a_disturbed_or_simulated_machine_is_told_first_on_the_page_and_in_the_terminal(
    make: ModuleType, tmp_path: Path
) -> None:
    load = make.MACHINE.load.model_copy(update={"cpu_busy_share": 0.34})
    limits = make.MACHINE.limits.model_copy(update={"container": SIMULATED})
    machine = make.MACHINE.model_copy(update={"load": load, "limits": limits})
    records = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, name="numpy"))]
    run = open_run(make.write_run(tmp_path / "run", records, machine=machine))
    html, output = words_of(render(run)), io.StringIO()
    print_report(run, Console(file=output, width=200))
    faults = {fault.kind: fault.message for fault in fitness_warnings(machine)}
    for kind in ("busy-machine", "rehearsal"):
        assert faults[kind] in html.split("Overview")[0]
        assert f"! {faults[kind]}" in output.getvalue()
    assert "! Disturbed" in html
    assert "! Simulated" in html


def test_a_warning_stands_in_words_below_its_table(page: str, saved: Run) -> None:
    table = page.split("<h3", 2)[1]
    (warning,) = saved.by_id["loading.TAB-1.small.pytorch"].warnings
    assert f"! PyTorch DataLoader: {warning.message}</li>" in table


def test_a_side_of_a_comparison_in_pairs_says_which_it_is(make: ModuleType, tmp_path: Path) -> None:
    duet = Pair(side="baseline", partner="run-01", commit="c" * 40)
    records = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(500, name="old"))]
    side = open_run(make.write_run(tmp_path / "run-01-baseline", records, duet=duet))
    compared = re.compile("skymark compare .*run-01-baseline .*run-01$")
    assert compared.search(comparing_command(side) or "")
    assert comparing_command(side) in words_of(render(side))
    for text in (render(side), facts_of(side)):
        assert re.search(f"baseline, .*{'c' * 12}, .*run-01", text)


def test_a_run_in_a_time_says_so_in_its_head(saved: Run) -> None:
    plan = saved.manifest.plan.model_copy(update={"allotment": Allotment(time_s=60, goal="table")})
    timed = dataclasses.replace(saved, manifest=saved.manifest.model_copy(update={"plan": plan}))
    assert re.search(r"\b60\.0 s\b.*\(goal table\)", render(timed))
    assert "(goal " not in render(saved)


def test_the_machine_and_its_faults_are_shown(page: str, saved: Run) -> None:
    assert "Example CPU 3000" in page
    assert "Example GPU" in page
    assert "0123456789ab" in page
    faults = {fault.kind: fault.message for fault in fitness_warnings(saved.manifest.machine)}
    assert faults["cpu-quota"] in page


def test_markup_in_a_record_stays_text(make: ModuleType, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b"
    records = [
        make.ended(make.cell("TAB-1", "numpy"), Status.FAILED, Cause(kind=evil, message=evil)),
        make.ended(make.cell("TAB-1", evil), Status.SKIPPED, Cause(kind="x", message=evil)),
    ]
    path = make.write_run(tmp_path / "run", records[:1])
    run = open_run(path)
    html = render(Run(run.directory, run.manifest, tuple(records), (evil,)))
    found = outline(html)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "\x1b" not in html
    assert found.open == []


def test_missing_figures_are_dashes(page: str) -> None:
    assert '<td data-value="">–</td>' in page


def test_a_scenarios_own_figures_get_a_column(make: ModuleType, tmp_path: Path) -> None:
    rounds = [
        one.model_copy(update={"metrics": one.metrics | {"scaling_efficiency": 0.91}})
        for one in make.rounds_of(1000)
    ]
    records = [make.measured(make.cell("DIST-1", "numpy", {"ranks": 2}), rounds)]
    html = render(open_run(make.write_run(tmp_path / "run", records)))
    assert "scaling efficiency" in html
    assert "0.910" in html


def test_a_scenario_without_timed_batches_has_no_wait_chart(
    make: ModuleType, tmp_path: Path
) -> None:
    none = dict.fromkeys(("wait_ns", "epoch", "elements", "warm_up", "stream"), ())
    rounds = [one.model_copy(update={"samples": none}) for one in make.rounds_of(1000)]
    records = [make.measured(make.cell("PR-1", "numpy"), rounds)]
    html = render(open_run(make.write_run(tmp_path / "run", records)))
    assert "wait: p50" not in html


def test_the_file_is_written_whole_or_not_at_all(saved: Run, tmp_path: Path) -> None:
    write_html(saved, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8").endswith("</html>\n")
    (tmp_path / "a file").touch()
    told = re.escape(f"skymark report '{tmp_path / 'a file'}'")
    with pytest.raises(SkymarkError, match=f"{told}$"):
        write_html(saved, tmp_path / "a file" / "report.html")


SORT = """
<script>
const table = document.querySelectorAll(".scroll table")[1];
const order = () => [...table.tBodies[0].rows].map((row) => row.cells[0].innerText.trim()[0]);
const press = (text) => [...table.querySelectorAll("th button")]
  .find((one) => one.textContent === text).click();
const seen = [order()];
for (const text of ["loader", "peak mem", "samples/s", "samples/s"]) {
  press(text);
  seen.push(order());
}
document.title = "sorted " + seen.map((one) => one.join("")).join(" ");
</script>
"""


def in_browser(page: Path, directory: Path) -> str:
    """Return a page as a browser has it after its scripts."""
    command = [
        next(filter(None, map(shutil.which, BROWSERS))),
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--no-first-run"),
        *("--virtual-time-budget=2000", "--window-size=1400,900"),
        f"--user-data-dir={directory / 'profile'}",
        "--dump-dom",
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.needs("browser")
def test_tables_sort_in_a_browser_with_missing_values_last(page: str, tmp_path: Path) -> None:
    # The page's policy allows its own inline script only because it is inline; so is this one.
    (tmp_path / "report.html").write_text(page.replace("</body>", f"{SORT}</body>"))
    shown = in_browser(tmp_path / "report.html", tmp_path)
    title = re.search(r"<title>(.*?)</title>", shown)
    assert title is not None
    words = title[1].split()
    # By speed: tf.data, Grain, PyTorch, NumPy; tf.data has no memory figure here.
    first, by_name, by_memory, by_rate, by_rate_up = words[1:]
    assert first == by_rate == by_rate_up[::-1]
    assert by_name == "".join(sorted(by_name, key=str.casefold))
    assert by_memory[-1] == first[0]


TELL_WIDTH = """
<script>
addEventListener("load", () => {
  const box = document.querySelector(".scroll"), name = box.querySelector("tbody th");
  const before = name.getBoundingClientRect().left;
  box.scrollLeft = 500;
  const stays = Math.abs(name.getBoundingClientRect().left - before) < 5;
  const root = document.documentElement;
  const words = [innerWidth, root.scrollWidth - root.clientWidth, box.scrollLeft > 0, stays];
  parent.postMessage(words.join(" "), "*");
});
</script>
"""
FRAMES = """<!doctype html><title></title>
<script>addEventListener("message", (told) => { document.title += told.data + ";"; });</script>
<iframe width="1280" height="800" style="border:0" src="report.html"></iframe>
<iframe width="390" height="800" style="border:0" src="report.html"></iframe>
"""


@pytest.mark.needs("browser")
def test_a_page_never_scrolls_sideways_and_a_wide_table_keeps_its_names_in_sight(
    page: str, tmp_path: Path
) -> None:
    long = "wds/a_name_that_has_no_place_for_a_new_line_but_is_wider_than_any_phone_is"
    named = page.replace("CV-1", long).replace("tf.data", long.replace("/", ":"))
    (heads,) = re.findall(r"<thead>\n<tr><td class=.none.></td>.*?</thead>", named, re.DOTALL)[:1]
    wide = re.sub(r"<td class=.none.></td>", r"\g<0>" + f"<th>{long}</th>" * 40, heads)
    (tmp_path / "report.html").write_text(
        named.replace(heads, wide).replace("</body>", f"{TELL_WIDTH}</body>")
    )
    (tmp_path / "frames.html").write_text(FRAMES)
    title = re.search(r"<title>(.*?)</title>", in_browser(tmp_path / "frames.html", tmp_path))
    assert title is not None
    told = sorted(title[1].strip(";").split(";"))
    assert told == ["1280 0 true true", "390 0 true true"]
