"""Training steps of real frameworks, on their CPU devices."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs, import_root
from skymark.suites.loading.step.calibration import FLOPS_PER_IMAGE
from skymark.suites.loading.suite import venv_of
from tests.functional.test_delivering import with_stand_in

TRAINS = """
import json, random, sys
import numpy as np
from skymark.suites.loading.step.calibration import Calibrated

batch = {"x": np.ones((4, 3)), "label": np.arange(4), "pixels": np.zeros((4, 2), np.uint8)}
if sys.argv[1] == "torch":
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from skymark.suites.loading.step import on_torch
    from skymark.suites.loading.step.on_torch import SquareStep

    with torch.device("meta"):
        networks = [on_torch.resnet50(), on_torch.VisionTransformer()]
        scores = [one(torch.empty(2, 3, 224, 224)).shape for one in networks]
    counts = [sum(one.numel() for one in network.parameters()) for network in networks]
    flops = []
    for network in networks:
        with torch.device("meta"), FlopCounterMode(display=False) as counted:
            network(torch.empty(1, 3, 224, 224)).sum().backward()
        flops.append(counted.get_total_flops())
    drawn = torch.initial_seed(), torch.random.get_rng_state().tolist()
    step = SquareStep("cpu", 0, Calibrated(32, 3))
    assert drawn == (torch.initial_seed(), torch.random.get_rng_state().tolist())
    weights = lambda: [one.detach().numpy().copy() for one in step.network.parameters()]
else:
    import jax
    from skymark.suites.loading.step import on_jax
    from skymark.suites.loading.step.on_jax import SquareStep

    key = jax.random.key(0)
    made = on_jax.resnet50, on_jax.vit_b16
    networks = [jax.eval_shape(one, key) for one in made]
    images = jax.ShapeDtypeStruct((2, 224, 224, 3), "float32")
    applied = [on_jax.resnet50_scores, on_jax.vit_b16_scores]
    scores = [jax.eval_shape(run, one, images).shape for run, one in zip(applied, networks)]
    counts = [sum(one.size for one in jax.tree.leaves(network)) for network in networks]
    flops = None
    step = SquareStep("cpu", 0, Calibrated(32, 3))
    weights = lambda: [np.array(one) for one in step._weights]
before = weights()
taken = [step.train(step.inputs(batch)) for _ in range(3)]
print(json.dumps({
    "counts": counts,
    "flops": flops,
    "scores": [list(one) for one in scores],
    "taken": taken,
    "changed": [float(abs(b - a).max()) for b, a in zip(before, weights())],
}))
"""


@pytest.mark.libraries
@pytest.mark.parametrize(("slug", "framework"), [("pytorch", "torch"), ("grain", "jax")])
def test_networks_have_the_weights_of_their_papers_and_a_step_changes_them(slug, framework):
    built = Venvs(cache_directory()).ensure(venv_of(slug))
    done = subprocess.run(
        [built.python, "-W", "error::UserWarning", "-c", TRAINS, framework],
        env={
            **os.environ,
            "PYTHONPATH": os.fspath(import_root(cache_directory())),
            "OMP_NUM_THREADS": "1",  # threads that wait for one another wait long on a busy machine
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Those of torchvision's `resnet50` and `vit_b_16`, by its documentation.
    assert found["counts"] == [25_557_032, 86_567_656]
    if framework == "torch":
        assert found["flops"] == [FLOPS_PER_IMAGE["resnet50"], FLOPS_PER_IMAGE["vit_b16"]]
    assert found["scores"] == [[2, 1000], [2, 1000]]
    assert all(ns > 0 for ns in found["taken"])
    assert all(0 < change < 1 for change in found["changed"])


RECORDS = """
import torch
from cuda_stand_in import StandIn, calls
from torch import nn
from skymark.suites.loading.step import on_torch

on_torch.Torch = StandIn
on_torch.resnet50 = lambda: nn.Sequential(
    nn.Conv2d(3, 4, 3, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1000)
)
kind = on_torch.StepKind.parse("resnet50")
step = on_torch.torch_step(kind, "gpu", 0, ("image",), as_graph=True)


def inputs(count, value=0.0):
    made = step.inputs({"image": torch.full((count, 32, 32, 3), value)})
    calls.clear()
    return made


images = inputs(4)
assert images.shape == (4, 3, 224, 224) and images.dtype is torch.bfloat16
assert images.is_contiguous(memory_format=torch.channels_last)
assert next(step.network.parameters()).is_contiguous(memory_format=torch.channels_last)
step.prepare(images)
warmed = ["wait for stream", "wait for stream"]
timed = ["event", "repeat", "event", "wait for event"]
assert calls == [*warmed, "capture thread_local None", "captured", *timed, *timed]
step.prepare(inputs(2))
assert calls == [*warmed, "capture thread_local pool", "captured", *timed, *timed]
assert step.train(inputs(4, 5.0)) > 0
assert calls == timed
assert 0 < step.launch_ns
assert (step._recorded[4].inputs == 5).all() and (step._recorded[2].inputs == 0).all()
step.train(inputs(3))  # a length that was not prepared is launched kernel by kernel
assert calls == [one for one in timed if one != "repeat"]
assert step.flops(images) == 4 * step.flops(images[:1])
assert step.peak_flops_per_s == 989e12
eager = on_torch.torch_step(kind, "gpu", 0, ("image",), as_graph=False)
calls.clear()
eager.prepare(images)
assert "repeat" not in calls and not any(one.startswith("capture") for one in calls)
"""


@pytest.mark.libraries
def test_on_a_gpu_a_step_of_images_is_recorded_once_per_length_and_repeated():
    built = Venvs(cache_directory()).ensure(venv_of("pytorch"))
    done = subprocess.run(
        [built.python, "-c", RECORDS],
        env={**os.environ, "PYTHONPATH": with_stand_in(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
