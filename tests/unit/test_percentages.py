"""A percentage looks the same everywhere: a number, a space, the sign."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import skymark
from skymark.model.sizes import percent
from tests.data.make_run import one_of_each, write_run

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(ROOT.glob("src/**/*.py"))
TEXTS = sorted(
    [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("src/skymark/**/*.toml")]
)

CRAMPED = re.compile(r"\d%(?![\w&])")
"""A digit with the sign at once, as in neither an address (`%25`) nor an array of Slurm (`9%5`)."""
FORMAT = re.compile(r"[^%]*%")
"""The format of a number as a percentage; in formats of dates a letter follows each sign."""


def cramped(program: str) -> Iterator[str]:
    """Yield the expressions of a program that write a percentage without the space."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            parts = [part for part in node.format_spec.values if isinstance(part, ast.Constant)]
            if parts and FORMAT.fullmatch("".join(part.value for part in parts)):
                yield ast.unparse(node)
        elif isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                follows = isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)
                # A quote ends the length of a page's drawing.
                if follows and re.match(r'%(?![\w"])', text.value):
                    yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (node.value for _ in CRAMPED.finditer(node.value))


@pytest.mark.parametrize(
    "program",
    ['f"{a:.0%} more"', 'f"{a:+.1%}"', 'f"{100 * a:.0f}% of"', '"is known to ±100%"', 'f"{a:%}"'],
)
def test_each_way_to_write_a_percentage_without_the_space_is_found(program):
    assert list(cramped(program))


@pytest.mark.parametrize("program", ['f"{a:%H:%M}"', "percent(a)", '"%s" % a', '"file:///a%20b"'])
def test_other_signs_are_not_taken_for_a_percentage(program):
    assert not list(cramped(program))


def test_no_program_writes_a_percentage_without_the_space():
    found = {str(path.relative_to(ROOT)): list(cramped(path.read_text())) for path in PROGRAMS}
    assert {path: one for path, one in found.items() if one} == {}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_and_no_cause_has_a_percentage_without_the_space(path):
    assert [line for line in path.read_text().splitlines() if CRAMPED.search(line)] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("src/**/*.j2")), ids=lambda path: path.name)
def test_no_template_formats_a_percentage_by_itself(path):
    assert re.findall(r":[+]?\.\d%", path.read_text()) == []


def test_no_table_sentence_or_page_of_a_run_has_a_percentage_without_the_space(tmp_path):
    run = skymark.open(write_run(tmp_path / "run", one_of_each()))
    compared = skymark.compare(run, run)
    page = re.sub(
        r"<style.*?</style>|<script.*?</script>|<[^>]*>", "", run.to_html(), flags=re.DOTALL
    )
    shown = [
        run.table(),
        run.to_markdown(),
        page,
        run.to_json(),
        compared.table(),
        compared.to_markdown(),
    ]
    for text in shown:
        assert " %" in text
        assert CRAMPED.findall(text) == []


@pytest.mark.parametrize(
    ("share", "text"), [(0.38, "38 %"), (0, "0 %"), (2.5, "250 %"), (0.004, "0 %"), (1, "100 %")]
)
def test_a_share_is_written_in_per_cent(share, text):
    assert percent(share) == text
    assert percent(share, signed=True) == f"+{text}"
    assert percent(-share - 0.01, signed=True).startswith("-")
