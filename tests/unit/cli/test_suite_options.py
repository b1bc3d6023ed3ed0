"""Options that suites declare, as the command line has them."""

from __future__ import annotations

import pytest
from cyclopts import App
from cyclopts.exceptions import UnknownOptionError

from skymark.cli.options import with_options_of
from skymark.cli.suite_options import declared_options
from skymark.model.errors import UsageError
from skymark.model.option import Option
from skymark.suite.registry import suite_named


def suite_with(sorting, *options, name="other"):
    """The suite with other options and another name."""
    return type("Other", (type(sorting),), {"name": name, "options": options})()


def parsed(made, *words):
    """The options of a class made for suites that the command line gives for these words."""
    app = App(result_action="return_value")

    def command(options=made()):  # noqa: B008  # frozen
        return options

    command.__annotations__ = {"options": made}
    app.default(command)
    return app(list(words), exit_on_error=False)


def test_each_suites_options_are_read_as_their_kinds(sorting):
    made = with_options_of([sorting])
    options = parsed(made, "--length", "12", "--order", "random", "sorted", "--workers", "2")
    assert (options.length, options.order, options.workers) == (12, ("random", "sorted"), 2)
    assert options.given() == ("--length", "--order", "--workers")
    assert (made().length, made().order, made().given()) == (None, (), ())


def test_a_flag_has_no_value_and_is_given_on_as_it_was_typed(sorting):
    flag = Option(name="skip_ties", kind="flag", help="Leave equal elements out.")
    made = with_options_of([suite_with(sorting, flag)])
    options = parsed(made, "--skip-ties", "--profile", "ci_cpu")
    assert options.skip_ties is True
    assert options.words() == ("--profile", "ci_cpu", "--skip-ties")
    assert made().words() == ("--profile", "ci_cpu")
    with pytest.raises(UnknownOptionError):
        parsed(made, "--no-skip-ties")


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
    with pytest.raises(UsageError, match=r"'sorting' and 'other' .* options 'length'"):
        declared_options([sorting, suite_with(sorting, option)])


def test_a_suite_cannot_take_the_name_of_an_option_that_all_have(sorting):
    with pytest.raises(UsageError, match=r"'other' declares an option 'rounds'"):
        with_options_of([suite_with(sorting, Option(name="rounds", help="Mine."))])


def test_an_option_of_another_suite_than_the_profiles_is_refused_with_its_suite(sorting):
    made = with_options_of([suite_named("loading"), sorting])
    with pytest.raises(UsageError, match=r"--length is an option of the suite sorting.*ci_cpu"):
        made(length=12).plan()
    plan = made(scenarios=("TAB-1",), adapters=("numpy",), workers=3, seed=9).plan()
    (planned,) = plan.cells
    assert planned.cell.settings["workers"] == 3
    assert planned.cell.specification["seed"] == 9
