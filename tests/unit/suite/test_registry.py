"""Suites are found by entry point, and one that cannot be used says why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skymark.machine.facts import capture
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.suite.registry import declaration_of, suite_named, suite_names, suites


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
    with pytest.raises(UnknownNameError, match=r"unknown suite 'buble'\. Did you mean 'bubbles'"):
        suite_named("buble")


def test_two_packages_with_a_suite_of_one_name_are_refused(declare):
    declare("first_package", "twins", "class TheSuite: pass")
    declare("second_package", "twins", "class TheSuite: pass")
    with pytest.raises(UsageError, match="two packages have a suite 'twins'") as refused:
        suite_named("twins")
    assert "first_package:TheSuite" in str(refused.value)
    assert "second_package:TheSuite" in str(refused.value)
    with pytest.raises(UsageError, match="remove one of them"):
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
    ids=["no module", "what it needs is absent", "no such class", "no Python", "cannot be made"],
)
def test_a_broken_package_is_named_with_the_reason(declare, module, reason):
    declare("broken_package", "broken", module)
    with pytest.raises(UsageError, match="the suite 'broken'") as refused:
        suite_named("broken")
    assert "broken_package:TheSuite" in str(refused.value)
    assert reason in str(refused.value)
    assert "mend or remove the package" in str(refused.value)


def manifest_of(suite: str, tmp_path, **more) -> Manifest:
    """The head of a run without cells."""
    effort = Effort(
        name="quick", min_rounds=1, max_rounds=1, target_relative_interval=0.1, cell_timeout_s=1
    )
    plan = Plan(suite=suite, profile="any", effort=effort, cells=())
    return Manifest(
        run_id="any",
        created_at=datetime.now(UTC),
        plan=plan,
        plan_hash=plan.hash,
        machine=capture(tmp_path),
        **more,
    )


def test_a_run_that_declares_its_metrics_needs_no_suite(sorting, tmp_path):
    declared = suite_named("sorting").declaration
    assert declaration_of(manifest_of("gone", tmp_path, declaration=declared)) == declared


def test_an_old_run_is_read_with_what_its_suite_declares_today(sorting, tmp_path):
    assert declaration_of(manifest_of("sorting", tmp_path)).primary == "elements_per_s"
    with pytest.raises(UnknownNameError, match="unknown suite 'gone'"):
        declaration_of(manifest_of("gone", tmp_path))
