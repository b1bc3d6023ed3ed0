"""Numbers as people read them."""

from __future__ import annotations

import html
import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.model.duration import Span
from skymark.model.metric import Figure, Metric, Shown
from skymark.model.sizes import count_of
from skymark.report import text
from skymark.report.chart import linear_axis, log_axis
from skymark.report.markdown import code_span, markdown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (0.012345, "0.0123"), (9.999, "10.0")],
)
def test_numbers_have_three_significant_digits(value: float, shown: str) -> None:
    assert text.significant(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (12, "12.0"), (999.6, "1.00 k"), (45_600, "45.6 k"), (2.5e9, "2.50 G")],
)
def test_counts_have_a_prefix(value: float | None, shown: str) -> None:
    assert text.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.64, "640 ms"), (12.34, "12.3 s"), (245, "4 min 5 s"), (7260, "2 h 1 min")],
)
def test_durations_have_a_fitting_unit(value: float | None, shown: str) -> None:
    assert text.duration(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (12, "12 B"), (1536, "1.54 kB"), (300 << 20, "315 MB"), (1 << 30, "1.07 GB")],
)
def test_sizes_have_binary_units(value: float | None, shown: str) -> None:
    assert text.size(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (1.0, "100 %"),
        (0.84, "84 %"),
        (0.0996, "10 %"),
        (0.034, "3.4 %"),
        (0.993, "99.3 %"),
    ],
)
def test_shares_are_in_per_cent(value: float | None, shown: str) -> None:
    assert text.share(value) == shown


def test_a_margin_is_relative_and_empty_without_an_interval() -> None:
    assert text.margin(Figure(value=100, low=96, high=104)) == "±4.0 %"
    assert text.margin(Figure(value=100, low=60, high=140)) == "±40 %"
    assert text.margin(Figure(value=100, low=1, high=900)) == "±>100 %"
    assert text.margin(Figure(value=100)) == ""
    assert text.margin(None) == ""


def test_milliseconds_are_made_of_nanoseconds() -> None:
    assert text.milliseconds(1_234_567) == "1.23"
    assert text.milliseconds(None) == "–"


def test_control_characters_are_replaced() -> None:
    assert text.plain("a\x1b[31mb\u202ec\nd") == "a�[31mb�c\nd"


def test_a_linear_axis_begins_at_zero_and_holds_all_values() -> None:
    axis = linear_axis([10.0, 95.0], text.count)
    assert axis.at(0) == 0.0
    assert axis.at(95) == pytest.approx(100 / 1.04, abs=0.01)
    assert axis.at(500) == 100.0
    assert [tick.label for tick in axis.ticks] == ["0", "25", "50", "75"]


def test_an_axis_without_values_is_still_an_axis() -> None:
    assert linear_axis([], text.count).at(0.5) > 0
    assert log_axis([None]).ticks


@pytest.mark.parametrize("values", [[1.0, 1.1], [1.0, 40.0], [0.001, 1000.0], [3.0]])
def test_a_logarithmic_axis_has_one_to_five_ticks_in_order(values: list[float]) -> None:
    axis = log_axis(values)
    places = [tick.place for tick in axis.ticks]
    assert 1 <= len(places) <= 5
    assert places == sorted(places)
    assert all(0 < axis.at(value) < 100 for value in values)


@pytest.mark.parametrize(
    ("shown", "integer", "value", "written"),
    [
        (Shown(), False, 1234.5, "1,234"),
        (Shown(digits=2), False, 0.1234, "0.12"),
        (Shown(), True, 12345.0, "12,345"),
        (Shown(format="count", divisor=1e6), False, 68.3e6, "68.3"),
        (Shown(format="share"), False, 0.5, "50 %"),
        (Shown(format="size"), True, 300 << 20, "315 MB"),
        (Shown(format="milliseconds"), False, 2_500_000, "2.50"),
        (Shown(format="duration"), False, 245, "4 min 5 s"),
    ],
)
def test_a_metric_is_written_as_it_declares(
    shown: Shown, integer: bool, value: float, written: str
) -> None:
    metric = Metric(name="x", heading="x", shown=shown, integer=integer)
    assert text.writer(metric)(value) == written


@given(st.text())
def test_plain_text_has_no_control_character(text_: str) -> None:
    shown = text.plain(text_)
    assert len(shown) == len(text_)
    assert not [one for one in shown if one not in "\n\t" and unicodedata.category(one)[0] == "C"]
    shown.encode()


@given(st.recursive(st.text() | st.integers(), st.lists, max_leaves=5))
def test_escaped_json_has_no_control_character_and_the_same_value(value: object) -> None:
    found = text.escaped_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert not [one for one in found if one != "\n" and not one.isprintable()]
    assert json.loads(found) == value


@given(st.text(st.sampled_from("`<>[]()|&@\\*~!# ab\n\r\x1b\u202e") | st.characters()))
def test_markdown_of_any_text_is_one_line_without_power(text_: str) -> None:
    line = markdown(text_)
    assert len(line.splitlines()) <= 1
    assert not set("`<>[]|*~\x1b\u202e\\") & set(line)
    assert not re.search(r"@\w", line)
    assert not re.search(r"&(?!#\d+;)", line)


@pytest.mark.parametrize(
    "text_",
    ["http://x.invalid", "www.x.invalid", "see #12", "GH-12", "mailto:a", "@team", "a@b.invalid"],
)
def test_nothing_in_markdown_becomes_a_link_or_a_reference(text_: str) -> None:
    assert "&#8203;" in markdown(text_)
    assert html.unescape(markdown(text_)).replace("\u200b", "") == text_


def test_names_in_markdown_stay_as_they_are() -> None:
    assert markdown("samples_per_s PC-1:small depth=5") == "samples_per_s PC-1:small depth=5"
    assert "_" not in markdown("__init__")


@given(st.text("`a \n"))
def test_a_code_span_is_longer_fenced_than_any_run_of_backticks_in_it(text_: str) -> None:
    span = code_span(text_)
    fence = re.match("`+", span)[0]
    inner = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in re.findall("`+", inner)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("s3://b/p?token=abc is gone", "s3://b/p?*** is gone"),
        ("https://h/x?sig=abc: gone", "https://h/x?***: gone"),
        ("s3:/b/p?token=abc; check", "s3:/b/p?***; check"),
        ("http://u:abc@h/x?y=abc", "http://***@h/x?***"),
        ("'s3://b/p?a=abc'", "'s3://b/p?***'"),
        ("is it? yes, at https://h/x", "is it? yes, at https://h/x"),
    ],
)
def test_keys_in_addresses_are_not_shown(written: str, shown: str) -> None:
    assert text.without_credentials(written) == shown


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ((240, 300, 360), "about 5 min 0 s (4 min 0 s to 6 min 0 s)"),
        ((240, 1680, 31 * 3600), "roughly 28 min"),
        ((0, 4.76, 300), "roughly 5 s"),
        ((0, 0.2, 300), "roughly 1 s"),
        ((60, 9000, 90000), "roughly 2 h"),
    ],
)
def test_a_range_that_tells_nothing_is_left_out(
    span: tuple[float, float, float], said: str
) -> None:
    low_s, expected_s, high_s = span
    assert text.about(Span(low_s=low_s, expected_s=expected_s, high_s=high_s)) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 cells"), (1, "1 cell"), (2, "2 cells"), (12345, "12,345 cells")]
)
def test_a_number_of_things_has_the_form_of_its_noun(number: int, said: str) -> None:
    assert count_of(number, "cell") == said
