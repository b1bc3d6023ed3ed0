"""A pool of forks ends with the process that made it, even if that was killed."""

import subprocess
import sys

import psutil
import pytest

RATE = """
import os, time
from skymark.suites.loading.ceilings import rate_at_once

def work(index):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(0.05)

rate_at_once(work, 100, 2, limit_s=600)
"""
IMAGES = """
import os, time
from skymark.suites.loading.dataset import images

def jpeg_bytes(image):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(0.05)

images.jpeg_bytes = jpeg_bytes
images.photograph = lambda pool, cut: None
os.sched_getaffinity = lambda _: {0, 1}
list(images._files([], iter(range(100_000)), 100_000))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("program", [RATE, IMAGES], ids=["ceilings", "images"])
def test_a_killed_process_leaves_none_of_its_pool(program: str):
    with psutil.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        numbers: set[int] = set()
        while len(numbers) < 2:
            numbers.add(int(parent.stdout.readline()))
        forks = [psutil.Process(number) for number in numbers]
        parent.kill()
        assert psutil.wait_procs(forks, 60)[1] == []
