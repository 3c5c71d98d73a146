# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing by the device's clock, as rooftile/bench/cuda/device_race.h does it.

A contestant's calls are captured into a CUDA graph of about two milliseconds that goes through copies of the arguments
larger than the L2 cache together; in every round each contestant's graph is launched once between two events, in an order
that turns. Where copies do not help (calls that touch little of their arguments), the L2 is swept before each call and
the call alone is timed.
"""
from __future__ import annotations

import time
from typing import Any, Callable

Call = Callable[[], Any]

SAMPLE_US = 2000.0
HEAD_START_CYCLES = 200_000  # a tenth of a millisecond, in which the host queues all of a sample
MAX_CALLS = 2000
MAX_SETS = 256
SWEPT_CALLS = 5


def num_sets(set_bytes: int, touched_bytes: float, l2_bytes: int, free_bytes: int) -> int:
    """How many copies of the arguments to go through; 1: sweep the L2 instead."""
    if 2 * touched_bytes < set_bytes:
        return 1
    room = max(int(0.4 * free_bytes) // max(set_bytes, 1), 2)
    return max(2, min(2 * l2_bytes // max(set_bytes, 1) + 1, room, MAX_SETS))


def residency(sets: int, set_bytes: int, l2_bytes: int) -> str:
    """How the arguments were kept out of the L2, or that they were not."""
    if sets == 1:
        return "L2 swept before each call"
    within = ": within the L2" if sets * set_bytes < 2 * l2_bytes else ""
    return f"rotated over {sets} copies, {sets * set_bytes / 1e6:.1f} MB{within}"


def calls_of_a_sample(call_us: float, sets: int) -> int:
    """Enough for a sample that dwarfs the start of a graph, and a multiple of the sets."""
    turns = round(SAMPLE_US / (max(call_us, 0.5) * sets) + 0.5)
    return sets * max(1, min(turns, MAX_CALLS // sets))


def order_of_round(index: int, count: int) -> list[int]:
    """Who goes when: the order turns, so that nobody always follows the same one."""
    return [(index + i) % count for i in range(count)]


class Contestant:
    """Calls of one implementation, one for each set of arguments, as a graph."""

    def __init__(self, calls: list[Call], stream: Any, sweep: Call | None):
        import torch

        # The graph refers to tensors that only the calls keep alive, and capturing the next one gives free memory back.
        self.calls, self.sweep, self.stream = calls, sweep, stream
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            for call in calls[:2]:  # whatever the first call prepares
                call()
            stream.synchronize()
            self.start.record()
            for call in calls:
                call()
            self.end.record()
        stream.synchronize()
        us = self.start.elapsed_time(self.end) * 1e3 / len(calls)
        self.count = 1 if sweep else calls_of_a_sample(us, len(calls))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for i in range(self.count):
                calls[i % len(calls)]()
        with torch.cuda.stream(stream):
            self.graph.replay()
        stream.synchronize()

    def sample(self) -> float:
        """Microseconds a call."""
        import torch

        samples = []
        with torch.cuda.stream(self.stream):
            for _ in range(SWEPT_CALLS if self.sweep else 1):
                torch.cuda._sleep(HEAD_START_CYCLES)  # else the device's clock would count the host's time
                if self.sweep:
                    self.sweep()
                self.start.record()
                self.graph.replay()
                self.end.record()
                self.end.synchronize()
                samples.append(self.start.elapsed_time(self.end) * 1e3 / self.count)
        return sum(samples) / len(samples)


def race(contestants: list[Contestant], rounds: int, seconds: float) -> list[list[float]]:
    """A list of samples for each, of equal lengths: `rounds`, or fewer once the time is up but three at least."""
    samples: list[list[float]] = [[] for _ in contestants]
    begin = time.monotonic()
    for index in range(rounds):
        if index >= 3 and time.monotonic() - begin > seconds:
            break
        for at in order_of_round(index, len(contestants)):
            samples[at].append(contestants[at].sample())
    return samples
