"""A CUDA device without a driver: arrays stay in memory, and calls to PyTorch's CUDA are noted.

No GPU is where these tests run. What they see is the order of calls, which PyTorch's notes on CUDA
prescribe, and that the arithmetic around them is right; that a GPU accepts them they do not see.
Imported in the venv of an adapter that has PyTorch.
"""

from __future__ import annotations

import time
from contextlib import contextmanager

import torch

from skymark.suites.loading.delivery.on_torch import Torch

CARD = "NVIDIA H100 80GB HBM3"

calls: list[str] = []


class Stream:
    """Work in order."""

    def __init__(self, device=None) -> None:
        self.device = device

    def wait_stream(self, other) -> None:
        calls.append("wait for stream")

    def synchronize(self) -> None:
        calls.append("wait for stream")


class Event:
    """A moment of the clock in place of one of a stream's."""

    def __init__(self, enable_timing=False) -> None:
        assert enable_timing

    def record(self) -> None:
        calls.append("event")
        self.at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        calls.append("wait for event")

    def elapsed_time(self, end) -> float:
        return (end.at_ns - self.at_ns) / 1e6


class Graph:
    """A graph that knows its pool, and notes when it is repeated."""

    def pool(self) -> str:
        return "pool"

    def replay(self) -> None:
        calls.append("repeat")


@contextmanager
def capture(graph, pool=None, capture_error_mode="global"):
    calls.append(f"capture {capture_error_mode} {pool}")
    yield
    calls.append("captured")


@contextmanager
def on(place):
    yield


def page_locked(tensor):
    calls.append("page-lock")
    return tensor.clone()


def moved(tensor, place, **options):
    calls.append(f"to {place}")
    return tensor


class StandIn(Torch):
    """Takes the ways of a CUDA device."""

    def __init__(self, platform, number, copies=None) -> None:
        super().__init__("cpu", number, copies)
        self.cuda = platform == "gpu"
        self.stream = Stream(self.device)


torch.cuda.Stream, torch.cuda.Event, torch.cuda.CUDAGraph = Stream, Event, Graph
torch.cuda.graph, torch.cuda.stream, torch.cuda.device = capture, on, on
torch.cuda.current_stream = Stream
torch.cuda.synchronize = lambda device: None
torch.cuda.device_count = lambda: 2
torch.cuda.get_device_name = lambda device: CARD
torch.Tensor.pin_memory, torch.Tensor.is_pinned = page_locked, lambda tensor: False
torch.Tensor.record_stream = lambda tensor, stream: calls.append("used by stream")
