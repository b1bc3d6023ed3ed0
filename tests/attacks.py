"""The table of attacks of ``evidence.md``: how many were tried, and how many went through.

    python -m tests.attacks docs/reference/evidence.md ["W&B" …]

An attempt is a case of a test, or an example that Hypothesis made; of the costly properties many
are made here, and few in `make test` (`tests.examples`).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import wraps
from pathlib import Path

import pytest

from tests.examples import EXAMPLES
from tests.faults.table import renew

ATTACKS = {
    "damage in any file of a run": (
        "tests/unit/rundir/test_any_bytes.py::test_any_bytes_in_any_file",
        "tests/unit/rundir/test_damage.py",
    ),
    "a worse copy in the place of a better one": ("tests/unit/store/test_damaged_runs.py",),
    "anything from a store or a rented machine": (
        "tests/unit/rundir/test_any_bytes.py::test_any_bytes_that_come",
        "tests/unit/cloud/lifecycle/test_results.py",
    ),
    "names of runs, cells and files that lead elsewhere": (
        "tests/unit/store/test_hostile_names.py",
        "tests/unit/store/test_fetching.py",
        "tests/unit/rundir/test_layout.py",
    ),
    "text that steers terminals, spreadsheets, browsers": (
        "tests/unit/report/test_any_text.py",
        "tests/unit/report/test_text.py",
        "tests/unit/report/test_export.py",
        "tests/unit/cli/test_foreign_text.py",
    ),
    "data of strangers: devices, gibibytes, depth": (
        "tests/unit/suites/loading/dataset/sources/test_hostile_data.py",
        "tests/unit/test_image_formats.py",
        "tests/unit/test_parquet_pages.py::test_a_l",
        "tests/unit/test_parquet_pages.py::test_a_damaged",
        "tests/unit/test_parquet_pages.py::test_a_cache",
        "tests/unit/suites/clip/reading/test_hostile_data.py",
    ),
    "a look for keys in variables, files and messages": (
        "tests/unit/machine/test_variables.py",
        "tests/processes/test_process.py::test_a_worker_and_its_children",
        "tests/unit/execute/test_venvs.py::test_a_build_back_end",
        "tests/functional/test_secrets.py",
    ),
    "modules and settings in the current directory": (
        "tests/functional/test_data_folder.py",
        "tests/processes/test_process.py::test_a_module_in_the_current",
        "tests/unit/execute/test_venvs.py::test_uv_obeys",
    ),
    "W&B: settings in a run, a server that lies": (
        "tests/stores/wandb_store/test_strangers.py",
        "tests/stores/wandb_store/test_online.py::test_settings_in_a_run",
        "tests/stores/wandb_store/test_online.py::test_a_home_that",
        "tests/stores/wandb_store/test_online.py::test_a_reference_to_a_file",
    ),
    "private files and keys on the way to a machine": (
        "tests/unit/cloud/test_sent_files.py",
        "tests/unit/cloud/test_source.py::test_a_bundle_has_the_installed",
        "tests/unit/cli/test_sync.py",
    ),
    "other users in the way of the lock": (
        "tests/unit/machine/test_measuring_lock.py",
        "tests/unit/machine/test_private_directory.py::test_a_directory_that",
    ),
    "other users: servers, caches, secrets": (
        "tests/unit/cloud/test_own_server.py::test_a_server_of_another",
        "tests/unit/cloud/test_own_server.py::test_a_server_that_never",
        "tests/unit/machine/test_private_directory.py::test_a_path_is",
        "tests/unit/machine/test_private_directory.py::test_nobody_else",
        "tests/unit/execute/test_venvs.py::test_a_venv_that_others",
        "tests/unit/execute/test_venvs.py::test_a_venv_of_another_user",
        "tests/unit/execute/test_venvs.py::test_no_venv_of_another",
        "tests/unit/execute/test_venvs.py::test_nobody_else",
        "tests/unit/cache/test_users.py::test_data_of_another_user",
        "tests/unit/cloud/test_secret_variables.py::test_no_other_user",
    ),
    "code where data is promised": (
        "tests/unit/suites/loading/test_suite.py::test_a_file_that_changed",
        "tests/unit/suites/loading/test_suite.py::test_a_plan_that_calls",
        "tests/unit/suites/loading/test_suite.py::test_a_file_cannot_take",
        "tests/unit/suites/loading/test_suite.py::test_bytecode",
    ),
}
"""Every row, in the order of the table, with the beginnings of the names of its tests."""
COLUMNS = ("attack", "tests", "attempts", "went through")


class Attempts:
    """Plugin of pytest that counts the attempts of each attack."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self.tests: dict[str, set[str]] = {name: set() for name in chosen}
        self.attempts = Counter[str]()
        self.through = Counter[str]()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out the tests of the same files that try no attack."""
        others = [item for item in items if not self._attacks_of(item.nodeid)]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Count the examples of a property, which Hypothesis gives to the test within."""
        made = Counter[str]()
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is not None:
            handle.inner_test = _counted(handle.inner_test, made)
        yield
        for attack in self._attacks_of(item.nodeid):
            self.tests[attack].add(item.nodeid.partition("[")[0])
            self.attempts[attack] += made["calls"] or 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what went through."""
        if report.failed:
            self.through.update(self._attacks_of(report.nodeid))

    def _attacks_of(self, node: str) -> list[str]:
        return [name for name in self.tests if node.startswith(ATTACKS[name])]

    def rows(self) -> dict[str, list[str]]:
        """Return the columns of every attack that was tried."""
        return {
            name: [f"{len(tests)}", f"{self.attempts[name]:,}", f"{self.through[name]}"]
            for name, tests in self.tests.items()
            if tests
        }


def _counted(test, made):
    @wraps(test)
    def call(*arguments, **named):
        made["calls"] += 1
        return test(*arguments, **named)

    return call


def main(page: Path, *beginnings: str) -> int:
    """Try every attack, or those whose names begin so, and renew their rows of a page's table."""
    chosen = [name for name in ATTACKS if name.startswith(beginnings or "")]
    files = dict.fromkeys(test.partition("::")[0] for name in chosen for test in ATTACKS[name])
    for variable, number in EXAMPLES.items():
        os.environ.setdefault(variable, f"{number.many}")
    counted = Attempts(chosen)
    status = pytest.main([*files, "--benchmark-disable", "-q"], plugins=[counted])
    renew(page, "attack table", COLUMNS, tuple(ATTACKS), counted.rows())
    return int(status)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
