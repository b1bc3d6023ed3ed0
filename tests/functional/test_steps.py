"""Training steps of real frameworks, on their CPU devices."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs, import_root
from skymark.suites.loading.suite import venv_of

TRAINS = """
import json, random, sys
import numpy as np
from skymark.suites.loading.step.calibration import Calibrated

batch = {"x": np.ones((4, 3)), "label": np.arange(4), "pixels": np.zeros((4, 2), np.uint8)}
if sys.argv[1] == "torch":
    import torch
    from skymark.suites.loading.step import torch_networks
    from skymark.suites.loading.step.on_torch import SquareStep

    with torch.device("meta"):
        networks = [torch_networks.resnet50(), torch_networks.VisionTransformer()]
        scores = [one(torch.empty(2, 3, 224, 224)).shape for one in networks]
    counts = [sum(one.numel() for one in network.parameters()) for network in networks]
    drawn = torch.initial_seed(), torch.random.get_rng_state().tolist()
    step = SquareStep("cpu", 0, Calibrated(32, 3))
    assert drawn == (torch.initial_seed(), torch.random.get_rng_state().tolist())
    weights = lambda: [one.detach().numpy().copy() for one in step.network.parameters()]
else:
    import jax
    from skymark.suites.loading.step import jax_networks
    from skymark.suites.loading.step.on_jax import SquareStep

    key = jax.random.key(0)
    made = jax_networks.resnet50, jax_networks.vit_b16
    networks = [jax.eval_shape(one, key) for one in made]
    images = jax.ShapeDtypeStruct((2, 224, 224, 3), "float32")
    applied = [jax_networks.resnet50_scores, jax_networks.vit_b16_scores]
    scores = [jax.eval_shape(run, one, images).shape for run, one in zip(applied, networks)]
    counts = [sum(one.size for one in jax.tree.leaves(network)) for network in networks]
    step = SquareStep("cpu", 0, Calibrated(32, 3))
    weights = lambda: [np.array(one) for one in step._weights]
before = weights()
taken = [step.train(step.inputs(batch)) for _ in range(3)]
print(json.dumps({
    "counts": counts,
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
    assert found["scores"] == [[2, 1000], [2, 1000]]
    assert all(ns > 0 for ns in found["taken"])
    assert all(0 < change < 1 for change in found["changed"])
