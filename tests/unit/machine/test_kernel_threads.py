"""Work of the kernel's threads is told in words, with a remedy that can be followed."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skymark.machine.processes import KERNEL_WORK, kernel_work, process_table
from skymark.model.record import MachineUse, Round
from skymark.statistics.stability import disturbance

WRITING = "the kernel writing to disk"
DISKS = "the kernel reading or writing disks"
MEMORY = "the kernel making room in memory"
INTERRUPTS = "interrupts of the network or other devices"
OTHER = "a kernel thread"

THREADS = {
    "kworker/u8:1-flush-254:0": WRITING,
    "kworker/u64:3+flush-259:0": WRITING,
    "flush-8:0": WRITING,
    "kworker/R-writeback": WRITING,
    "kworker/u8:4-ext4-rsv-conversion": WRITING,
    "jbd2/vda1-8": WRITING,
    "xfsaild/nvme0n1p1": WRITING,
    "kworker/u32:2-btrfs-endio-write": WRITING,
    "btrfs-transaction": WRITING,
    "dmcrypt_write/253:0": WRITING,
    "txg_sync": WRITING,
    "kworker/1:1H-kblockd": DISKS,
    "kworker/u8:0-loop0": DISKS,
    "nvme-wq": DISKS,
    "scsi_eh_0": DISKS,
    "md127_raid1": DISKS,
    "kworker/u17:1-kcryptd/253:0": DISKS,
    "kworker/u9:2-rpciod": DISKS,
    "kswapd0": MEMORY,
    "kcompactd0": MEMORY,
    "khugepaged": MEMORY,
    "ksmd": MEMORY,
    "kdamond.0": MEMORY,
    "ksoftirqd/1": INTERRUPTS,
    "irq/25-mlx5_comp3": INTERRUPTS,
    "napi/eth0-8193": INTERRUPTS,
    "kworker/0:0-events": OTHER,
    "kworker/R-slub_flushwq": OTHER,
    "kworker/1:0-mm_percpu_wq": OTHER,
    "kworker/0:1-virtio_vsock": OTHER,
    "rcu_preempt": OTHER,
    "migration/0": OTHER,
    "watchdogd": OTHER,
}


@pytest.mark.parametrize(("thread", "words"), THREADS.items())
def test_a_kernel_thread_is_named_by_its_work(thread, words):
    assert kernel_work(thread) == words


def test_only_kernel_threads_are_told_in_words():
    table = process_table()
    known = {work.words for work in KERNEL_WORK}
    kernel = [one for one in table.values() if one.name in known]
    # No program has a file of a kernel thread to run.
    assert all(not (Path("/proc") / str(one.pid) / "cmdline").read_bytes() for one in kernel)
    assert not [one.name for one in table.values() if one.name.startswith("kworker/")]
    if 2 in table and (Path("/proc/2/comm")).read_text() == "kthreadd\n":
        assert kernel


def test_the_remedy_fits_those_who_took_the_processors():
    def told(**use):
        used = MachineUse(cores=2.0, most_share=0.05, **use)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return disturbance([Round(round=0, started_at=now, setup_s=0, timed_ns=1, machine=used)])

    wanted = {
        **{work.words: work.remedy for work in KERNEL_WORK},
        "stress-ng": "stop them",
        None: "stop them",
    }
    for program, remedy in wanted.items():
        found = told(others_cores=1.0, program=program)
        assert re.fullmatch(rf"{re.escape(remedy)}, .*--time", found.remedy)
        assert (program or "other programs took") in found.message
    stolen = told(others_cores=0.0, stolen_cores=1.0)
    assert stolen.message.startswith("other machines on the host took 1 of 2 cores")
    assert "stop" not in stolen.remedy
