"""Suites are found by entry point, and one that cannot be used says why."""

from __future__ import annotations

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suite.registry import suite_named, suite_names, suites


def test_a_suite_of_another_package_is_found_by_its_entry_point(sorting):
    assert len(suite_names()) > 1
    assert "sorting" in suite_names()
    assert suite_named("sorting").title.startswith("sorting algorithms")
    assert [suite.name for suite in suites()] == list(suite_names())


def test_a_suite_is_not_imported_before_it_is_asked_for(declare):
    declare("lazy_suite", "lazy", "raise SystemExit('imported too early')")
    assert "lazy" in suite_names()


def test_an_absent_suite_is_answered_with_those_that_there_are(declare):
    declare("bubbles", "bubbles", "class TheSuite: pass")
    with pytest.raises(UnknownNameError, match=r"'buble'.*'bubbles'"):
        suite_named("buble")


def test_two_packages_with_a_suite_of_one_name_are_refused(declare):
    declare("first_package", "twins", "class TheSuite: pass")
    declare("second_package", "twins", "class TheSuite: pass")
    with pytest.raises(UsageError, match="suite 'twins'") as refused:
        suite_named("twins")
    assert "first_package:TheSuite" in str(refused.value)
    assert "second_package:TheSuite" in str(refused.value)
    with pytest.raises(UsageError, match="suite 'twins'"):
        suite_names()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "No module named 'broken_package'"),
        ("import nothing_like_this", "No module named 'nothing_like_this'"),
        ("class AnotherName: pass", "has no attribute 'TheSuite'"),
        ("class TheSuite(", "was never closed"),
        (
            "class TheSuite:\n    def __init__(self): raise ValueError('out of order')",
            "out of order",
        ),
    ],
    ids=["no module", "no dependency", "no such class", "no Python", "cannot be made"],
)
def test_a_broken_package_is_named_with_the_reason(declare, module, reason):
    declare("broken_package", "broken", module)
    with pytest.raises(UsageError, match="the suite 'broken'") as refused:
        suite_named("broken")
    assert "broken_package:TheSuite" in str(refused.value)
    assert reason in str(refused.value)
    assert "remove the package" in str(refused.value)
