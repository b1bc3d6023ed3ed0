"""The next model's peak of memory has nothing of an earlier one: known amounts, and a runner.

Anonymous memory is looked at: whose a library's pages are depends on what else runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from skymark.model.record import Resources
from skymark.suites.clip.encoding.batches import return_freed_memory
from tests.clip.conftest import ONCE

BLOCK = 64 << 10  # below the size from which glibc maps each block by itself
BLOCKS = 3000
HELD = BLOCK * BLOCKS


def anonymous_bytes():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))


def hold():
    """Hold blocks below one that stays: what lies there is not returned by itself."""
    blocks = [torch.ones(BLOCK // 4) for _ in range(BLOCKS)]
    return blocks, torch.ones(BLOCK // 4)


def test_memory_that_is_freed_below_a_block_in_use_is_returned():
    return_freed_memory(torch.device("cpu"))
    before = anonymous_bytes()
    blocks, stays = hold()
    assert anonymous_bytes() - before > 0.9 * HELD
    del blocks
    assert anonymous_bytes() - before > 0.5 * HELD, "glibc returns it by itself: of no use"
    return_freed_memory(torch.device("cpu"))
    assert anonymous_bytes() - before < 0.1 * HELD
    assert stays.sum() == BLOCK // 4


def test_the_peak_of_a_model_has_nothing_of_what_was_held_for_the_one_before(bench):
    class Sampled:
        def begins(self, exclude=()):
            pass

        def ends(self):
            return Resources(peak_pss_bytes=anonymous_bytes())

    def peak(runner, architecture):
        cell = bench.cell(architecture=architecture)
        runner.prepare(cell)
        return runner.measure(cell, 0, ONCE, Sampled()).metrics["peak_pss_bytes"]

    runner = bench.runner()
    peak(runner, "tiny-ViT")
    alone = peak(runner, "tiny-ViT-wide")
    runner._encoder[1].held = hold()
    stays = runner._encoder[1].held[1]
    assert peak(runner, "tiny-ViT") == pytest.approx(alone, abs=0.3 * HELD)
    assert stays.sum() == BLOCK // 4
