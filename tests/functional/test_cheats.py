"""Adapters that cheat are refused, each with a cause that names what it did."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from skymark.model.record import Record, Status
from tests.functional.conftest import CHEATS, command, environment

CAUSES = {
    "SkipsNormalise": ("CV-1", "skips-normalise", "skipped-stage", "'normalise' was skipped"),
    "DropsTail": ("CV-1", "drops-tail", "dropped-tail", "dropped tail"),
    "RepeatsElement": ("CV-1", "repeats-element", "repeated-element", "more than once"),
    "ServesOneBatch": ("CV-1", "serves-one-batch", "repeated-batch", "served again"),
    "IgnoresSeed": ("CV-1", "ignores-seed", "ignored-seed", "seed was ignored"),
    "CropsCentre": ("CV-1", "crops-centre", "wrong-stage", "'crop' is wrong"),
    "ShufflesLabels": ("CV-1", "shuffles-labels", "misplaced", "'label' belong"),
    "CastsDown": ("CV-1", "casts-down", "precision", "lower precision"),
    "ServesLazyMappings": ("CV-1", "serves-lazy-mappings", "lazy-batch", "ComputesOnAccess"),
    "ServesLazyArrays": ("CV-1", "serves-lazy-arrays", "lazy-batch", "LazyArray"),
    "ServesFutures": ("CV-1", "serves-futures", "lazy-batch", "Future"),
    "EditsTheIndexLater": ("CV-1", "edits-the-index-later", "repeated-batch", "served again"),
    "KnowsTheFirstBatches": ("CV-1", "knows-the-first-batches", "misplaced", "'label' belong"),
    "PredictsFromTheSeed": ("CV-1", "predicts-from-the-seed", "misplaced", "'label' belong"),
    "RepeatsTheOrder": ("CV-1", "repeats-the-order", "same-order", "shuffled anew"),
    "SwapsNeighbours": ("CV-1", "swaps-neighbours", "hardly-shuffled", "declares 'global'"),
    "ShufflesRuns": ("CV-1", "shuffles-runs", "hardly-shuffled", "neighbour in storage"),
    "OrdersByNoSeed": ("CV-1", "orders-by-no-seed", "ignored-seed", "on the seed"),
    "ReplacesTheOracle": ("CV-1", "replaces-the-oracle", "misplaced", "'label' belong"),
    "ClaimsARate": ("CV-1", "claims-a-rate", "claimed-rate", "samples_per_s"),
    "ClaimsElements": ("CV-1", "claims-elements", "claimed-elements", "the indices of"),
    "KeepsFinishedElements": (
        "MM-1",
        "keeps-finished-elements",
        "kept-work",
        "kept results",
    ),
    "KeepsFinishedArrays": (
        "MM-1",
        "keeps-finished-arrays",
        "kept-work",
        "kept results",
    ),
    "WorksAheadInOpen": ("MM-1", "works-ahead-in-open", "kept-work", "kept results"),
    "WorksAheadInRestarts": ("MM-1", "works-ahead-in-restarts", "worked-ahead", "while epochs"),
    "KeepsObjects": ("IO-1", "keeps-objects", "kept-objects", "came from a copy"),
    "CopiesInOpen": ("IO-1", "copies-in-open", "kept-objects", "came from a copy"),
    "ReadsTheServersDisk": ("IO-1", "reads-the-servers-disk", "kept-objects", "came from a copy"),
    "TakesOneSourceFirst": ("MIX-1", "takes-one-source-first", "unmixed", "mixed throughout"),
    "IgnoresTheWeights": ("MIX-1", "ignores-the-weights", "ignored-weights", "its weight is 0."),
    "TakesAnotherRank": ("DIST-1", "takes-another-rank", "another-rank", "rank"),
}

HONEST = {
    "DeclaresItsBuffer": ("CV-1", "declares-its-buffer"),
    "ReusesBuffers": ("CV-1", "reuses-buffers"),
    "ServesReadOnly": ("CV-1", "serves-read-only"),
    "ServesStrided": ("CV-1", "serves-strided"),
    "SharesMemory": ("CV-1", "shares-memory"),
    "ServesDouble": ("CV-1", "serves-double"),
    "ServesBackwards": ("CV-1", "serves-backwards"),
    "MakesBatchesInThreads": ("CV-1", "makes-batches-in-threads"),
    "DeclaresWhatItKeeps": ("MM-1", "declares-what-it-keeps"),
    "DeclaresItWorksAhead": ("MM-1", "declares-it-works-ahead"),
    "DeclaresItsCopy": ("IO-1", "declares-its-copy"),
}

SCENARIOS = {
    "CV-1": ("CV-1:tiny",),
    "MM-1": ("MM-1:small",),  # whose work takes long enough to be missed in the CPU time
    "IO-1": ("IO-1:tiny", "--axis", "source=http"),
    "DIST-1": ("DIST-1:tiny", "--axis", "ranks=2"),
    "MIX-1": ("MIX-1:tiny",),
}
"""What is run of each."""


def said_by(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(directory), check=False
    )


def plan_of_whole_epochs(directory: Path, what: Sequence[str], adapters: Sequence[str]) -> Path:
    """Plan rounds whose epochs end however busy the machine is: a part of one hides its cheat."""
    arguments = ("--scenarios", *what, "--effort", "check", "--timeout", "600")
    planned = said_by(directory, "plan", *arguments, "--adapters", *adapters, "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    plan["effort"]["limits"]["max_seconds"] = 300.0
    path = directory / f"{what[0]}.json"
    path.write_text(json.dumps(plan))
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[tuple[str, str], Record]:
    """One run of all cheats; by scenario and slug."""
    directory = tmp_path_factory.mktemp("cheats")
    found: dict[tuple[str, str], Record] = {}
    for scenario, what in SCENARIOS.items():
        chosen = [name for name, cause in CAUSES.items() if cause[0] == scenario]
        chosen += [name for name, home in HONEST.items() if home[0] == scenario]
        adapters = ("numpy", *(f"{CHEATS}:{name}" for name in chosen))
        plan = plan_of_whole_epochs(directory, what, adapters)
        output = directory / scenario
        done = said_by(directory, "run", "--plan", str(plan), "--json", "--output", str(output))
        assert done.returncode == 1, done.stderr
        for record in map(Record.model_validate, json.loads(done.stdout)["records"]):
            found[scenario, record.cell.adapter] = record
    return found


@pytest.mark.parametrize("name", CAUSES)
def test_a_cheat_is_invalid_and_its_cause_names_what_was_wrong(records, name):
    scenario, slug, kind, words = CAUSES[name]
    record = records[scenario, slug]
    assert record.status is Status.INVALID
    assert record.metrics == {}
    assert record.cause is not None
    assert (record.cause.kind, words in record.cause.message) == (kind, True), record.cause


def test_a_clock_that_an_adapter_slowed_is_held_against_the_engines(skymark):
    ran = skymark(
        *("run", "--scenarios", "TAB-1", "--effort", "quick", "--rounds", "1"),
        *("--adapters", f"{CHEATS}:SlowsTheClock"),
    )
    (record,) = ran.records.values()
    assert record.status is Status.INVALID, ran.stderr
    assert record.cause.kind == "claimed-time"
    assert "engine's clock" in record.cause.message
    # It did so twice: the first time the machine might have stood still.
    assert [one.kind for one in record.warnings] == ["doubtful-round"]
    assert [one.round for one in record.rounds] == [1]


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_adapter_is_ok_however_unusual_it_is(records, name):
    record = records[HONEST[name]]
    assert (record.status, record.cause) == (Status.OK, None)


def test_what_an_adapter_declares_to_keep_is_a_condition_of_its_record(records):
    assert records["MM-1", "declares-what-it-keeps"].conditions["caches"] == "finished"
    assert "caches" not in records["MM-1", "numpy"].conditions


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_honest_loop_that_the_cheats_change_is_ok(records, scenario):
    assert records[scenario, "numpy"].status is Status.OK
