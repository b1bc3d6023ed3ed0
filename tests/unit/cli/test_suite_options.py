"""Options that suites declare, as the command line has them."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
from cyclopts import App, Parameter
from cyclopts.exceptions import UnknownOptionError

from skymark.cli import options as options_module
from skymark.cli.options import PlanOptions, declared_options, typed_options
from skymark.model.errors import UsageError
from skymark.model.option import Option
from skymark.model.requests import Work
from skymark.suite.registry import suite_named


def suite_with(sorting, *options, name="other"):
    """The suite with other options and another name."""
    return type("Other", (type(sorting),), {"name": name, "options": options})()


def parsed(suites, *words):
    """The options that the command line gives for these words, where these suites are installed."""
    declared_type = typed_options(declared_options(suites))

    @Parameter(name="*")
    @dataclass(frozen=True, kw_only=True)
    class Options(PlanOptions):
        own: Annotated[declared_type, Parameter(name="*")] = field(default_factory=dict)

    app = App(result_action="return_value")

    def command(options=Options()):  # frozen
        return options

    command.__annotations__ = {"options": Options}
    app.default(command)
    return app(list(words), exit_on_error=False)


def test_each_suites_options_are_read_as_their_kinds(sorting):
    options = parsed([sorting], "--length", "12", "--order", "random", "sorted", "--workers", "2")
    assert options.own == {"length": 12, "order": ("random", "sorted"), "workers": 2}
    assert options.given() == ("--length", "--order", "--workers")
    assert (parsed([sorting]).own, parsed([sorting]).given()) == ({}, ())


def test_a_flag_has_no_value_and_is_given_on_as_it_was_typed(sorting):
    flag = suite_with(sorting, Option(name="skip_ties", kind="flag", help="Leave equals out."))
    options = parsed([flag], "--skip-ties", "--profile", "ci_cpu")
    assert options.own == {"skip_ties": True}
    work = Work(profile="ci_cpu", options=options.own)
    assert work.words({"skip_ties"}) == ("--profile", "ci_cpu", "--skip-ties")
    off = Work(profile="ci_cpu", settings={"turbo": False}, options={"skip_ties": False})
    assert off.words({"skip_ties", "turbo"}) == ("--profile", "ci_cpu", "--set", "turbo=False")
    with pytest.raises(UnknownOptionError):
        parsed([flag], "--no-skip-ties")


def test_an_option_that_two_suites_have_is_one_option_with_the_help_of_both(sorting):
    found = declared_options([suite_named("loading"), sorting])
    assert found["workers"].suites == ("loading", "sorting")
    assert found["workers"].option.help.startswith("loading: Worker processes")
    assert found["workers"].option.help.endswith("sorting: Threads.")
    assert found["seed"].option.default == 7
    assert found["length"].suites == ("sorting",)


def test_the_choices_of_an_option_are_those_of_all_its_suites(sorting):
    other = suite_with(
        sorting,
        Option(name="order", choices=("sorted", "falling"), several=True, help="How they lie."),
    )
    option = declared_options([sorting, other])["order"].option
    assert option.choices == ("random", "sorted", "falling")
    assert option.help == "How they lie."


@pytest.mark.parametrize(
    "option",
    [
        Option(name="length", kind="number", help="Elements."),
        Option(name="length", kind="integer", several=True, help="Elements."),
        Option(name="length", kind="integer", setting=True, help="Elements."),
    ],
)
def test_one_name_for_two_kinds_of_values_is_refused_with_both_suites(sorting, option):
    with pytest.raises(UsageError, match=r"'sorting' .*'other' .*'length'"):
        declared_options([sorting, suite_with(sorting, option)])


def test_a_suite_cannot_take_the_name_of_an_option_that_all_have(sorting):
    with pytest.raises(UsageError, match=r"'other' .*'rounds'"):
        declared_options([suite_with(sorting, Option(name="rounds", help="Mine."))])


def test_an_option_of_another_suite_than_the_profiles_is_refused_with_its_suite(
    sorting, monkeypatch
):
    """The suite is installed for the test alone."""
    both = declared_options([suite_named("loading"), sorting])
    monkeypatch.setattr(options_module, "DECLARED", both)
    with pytest.raises(UsageError, match=r"--length .* sorting.*ci_cpu"):
        PlanOptions(own={"length": 12}).plan()
    own = {"workers": 3, "seed": 9}
    plan = PlanOptions(scenarios=("TAB-1",), adapters=("numpy",), own=own).plan()
    (planned,) = plan.cells
    assert planned.cell.settings["workers"] == 3
    assert planned.cell.specification["seed"] == 9
