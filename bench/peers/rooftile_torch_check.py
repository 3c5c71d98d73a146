# SPDX-License-Identifier: Apache-2.0
"""Rooftile called from Python on torch CUDA tensors: are results, streams, graphs, threads and errors as torch's users expect?

    ROOFTILE_LIBRARY=build/librooftile.so python3 bench/peers/rooftile_torch_check.py [--json FILE]

Every check prints one JSON line; the exit status is 1 if any failed. Results are compared with torch in float64 on fresh
random inputs, into outputs that were filled with NaN. Needs a Hopper GPU, torch and apache-tvm-ffi.
"""
from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import threading
import time
import traceback
from typing import Callable

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import rooftile

DEVICE = torch.device("cuda", 0)
SLEEP_CYCLES = 200_000_000  # a tenth of a second: far more than any call here takes
ROUNDOFF = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12, torch.float32: 2.0**-25}


class Problem:
    """One call with inputs that can be drawn anew in place, which a captured graph then sees."""

    name: str
    inputs: list[torch.Tensor]  # of random numbers; index tensors are set once
    output: torch.Tensor
    roundings = 2  # how many roundings to the output's type the result is from the exact one, at most

    def refresh(self) -> None:
        for tensor in self.inputs:
            tensor.copy_(torch.randn(tensor.shape, device=DEVICE))
        self.output.fill_(math.nan)

    def call(self) -> None:
        raise NotImplementedError

    def exact(self) -> torch.Tensor:
        """In float64."""
        raise NotImplementedError

    def error(self) -> float:
        """Norm-wise, in units of the allowed error: passes up to 1. NaN never does."""
        exact, unit = self.exact(), ROUNDOFF[self.output.dtype]
        difference = (self.output.double() - exact).abs()
        scale = exact.abs() + exact.square().mean().sqrt()
        norm = (difference.norm() / exact.norm()).item() / (self.roundings * unit)
        worst = (difference / scale).max().item() / (4 * self.roundings * unit)
        return norm if math.isnan(worst) or norm > worst else worst


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=DEVICE)


class RmsNorm(Problem):
    def __init__(self, rows: int = 16, columns: int = 4096):
        self.name = f"rms_norm {rows}x{columns}"
        self.x, self.weight, self.output = empty(rows, columns), empty(columns), empty(rows, columns)
        self.inputs = [self.x, self.weight]

    def call(self) -> None:
        rooftile.rms_norm(self.output, self.x, self.weight, eps=1e-6)

    def exact(self) -> torch.Tensor:
        x = self.x.double()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight.double()


class Gemm(Problem):
    def __init__(self, M: int = 1024, N: int = 1024, K: int = 1024, activation: str = "none"):
        self.name = f"gemm {M}x{N}x{K} {activation}"
        self.a, self.b, self.bias, self.output = empty(M, K), empty(N, K), empty(N), empty(M, N)
        self.inputs, self.activation = [self.a, self.b, self.bias], activation

    def call(self) -> None:
        rooftile.gemm(self.output, self.a, self.b, bias=self.bias, alpha=0.125, activation=self.activation)

    def exact(self) -> torch.Tensor:
        linear = 0.125 * (self.a.double() @ self.b.double().T) + self.bias.double()
        return {"none": linear, "silu": F.silu(linear)}[self.activation]


class GemmFp8(Problem):
    name = "gemm_fp8 512x512x512"

    def __init__(self) -> None:
        self.a, self.b, self.output = empty(512, 512), empty(512, 512), empty(512, 512)
        self.a8, self.b8 = (empty(512, 512, dtype=torch.float8_e4m3fn) for _ in range(2))
        self.scales = [torch.full((1,), scale, device=DEVICE) for scale in (0.5, 0.25)]
        self.inputs = [self.a, self.b]

    def refresh(self) -> None:
        super().refresh()
        self.a8.copy_(self.a)
        self.b8.copy_(self.b)

    def call(self) -> None:
        rooftile.gemm_fp8(self.output, self.a8, self.b8, *self.scales)

    def exact(self) -> torch.Tensor:
        return 0.125 * (self.a8.double() @ self.b8.double().T)


class Prefill(Problem):
    roundings = 4  # probabilities are rounded, too

    def __init__(self, tokens: int = 512, heads: int = 8, kv_heads: int = 2, causal: bool = True):
        self.name = f"attention_prefill {tokens} tokens, {heads}/{kv_heads} heads, causal={causal}"
        # Strided views, as a fused QKV projection leaves them.
        self.qkv = empty(tokens, heads + 2 * kv_heads, 128)
        self.q, self.k, self.v = self.qkv.split([heads, kv_heads, kv_heads], dim=1)
        self.output, self.causal, self.inputs = empty(tokens, heads, 128), causal, [self.qkv]

    def call(self) -> None:
        rooftile.attention_prefill(self.output, self.q, self.k, self.v, scale=128**-0.5, causal=self.causal)

    def exact(self) -> torch.Tensor:
        q, k, v = (t.double().transpose(0, 1) for t in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)
        return out.transpose(0, 1)


class Decode(Problem):
    roundings = 4

    def __init__(self, batch: int, tokens: int = 2048):
        self.name = f"attention_decode {batch}x{tokens}"
        self.q, self.k, self.v = empty(batch, 32, 128), empty(batch, tokens, 8, 128), empty(batch, tokens, 8, 128)
        self.lengths = torch.randint(1, tokens + 1, (batch,), device=DEVICE, dtype=torch.int32)
        self.output, self.inputs = empty(batch, 32, 128), [self.q, self.k, self.v]

    def call(self) -> None:
        rooftile.attention_decode(self.output, self.q, self.k, self.v, self.lengths, scale=128**-0.5)

    def exact(self) -> torch.Tensor:
        q = self.q.double().unsqueeze(2)  # [batch, head, 1, D]
        k, v = (t.double().transpose(1, 2) for t in (self.k, self.v))
        seen = torch.arange(k.shape[2], device=DEVICE) < self.lengths.unsqueeze(1)
        mask = seen[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).squeeze(2)


def problems() -> list[Problem]:
    return [RmsNorm(), Gemm(), Gemm(16, 1024, 1024, "silu"), GemmFp8(), Prefill(), Prefill(causal=False),
            Decode(64), Decode(1)]


# ---- the checks ----------------------------------------------------------------------------------
# Each yields (what was checked, facts); a fact named "pass" decides, and an AssertionError fails.


def verdict(problem: Problem, **facts: object) -> dict:
    error = problem.error()
    return {"pass": error <= 1, "error": round(error, 4), **facts}


def eager(all_problems: list[Problem]):
    for problem in all_problems:
        problem.refresh()
        begin = time.perf_counter()
        problem.call()
        torch.cuda.synchronize()
        yield problem.name, verdict(problem, first_call_ms=round(1e3 * (time.perf_counter() - begin), 1))


def captured(all_problems: list[Problem]):
    """torch.cuda.graph, on its own stream; each replay sees inputs that changed in place."""
    for problem in all_problems:
        graph = torch.cuda.CUDAGraph()
        problem.refresh()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph):
                problem.call()
        except RuntimeError as error:
            yield problem.name, {"pass": False, "reason": str(error)}
            continue
        torch.cuda.synchronize()
        untouched = bool(torch.isnan(problem.output).all())  # capturing runs nothing
        worst = {"pass": untouched, "error": 0.0}
        for _ in range(4):
            problem.refresh()
            graph.replay()
            now = verdict(problem)
            worst = {"pass": worst["pass"] and now["pass"], "error": max(worst["error"], now["error"])}
        yield problem.name, {**worst, "replays": 4, "capture_ran_nothing": untouched}


def side_stream(all_problems: list[Problem]):
    """A sleeping kernel goes first on the side stream: a call that ran anywhere else would be done before it ends."""
    side = torch.cuda.Stream()
    for problem in all_problems:
        problem.refresh()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(SLEEP_CYCLES)
            problem.call()
        waits = bool(torch.isnan(problem.output).all()) and not side.query()
        side.synchronize()
        yield problem.name, verdict(problem, waits=waits) | ({} if waits else {"pass": False})


def not_the_default_stream(all_problems: list[Problem]):
    """The default stream sleeps: a call on a side stream must be done before it wakes."""
    side, problem = torch.cuda.Stream(), all_problems[0]
    problem.refresh()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP_CYCLES)
    with torch.cuda.stream(side):
        problem.call()
    side.synchronize()
    first = not torch.cuda.default_stream().query()
    torch.cuda.synchronize()
    yield problem.name, verdict(problem, done_before_the_default_stream=first) | ({} if first else {"pass": False})


def two_threads(_: list[Problem]):
    """Two threads with a stream each call different shapes of the same operators, many times."""
    results: dict[str, dict] = {}

    def work(problem: Problem, stream: torch.cuda.Stream) -> None:
        with torch.cuda.stream(stream):
            worst = 0.0
            for _ in range(30):
                problem.refresh()
                problem.call()
                worst = max(worst, problem.error())
            results[problem.name] = {"pass": worst <= 1, "error": round(worst, 4), "calls": 30}

    mine = [RmsNorm(7, 4096), RmsNorm(33, 4096), Decode(1), Decode(64)]
    streams = [torch.cuda.Stream() for _ in mine]
    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=pair) for pair in zip(mine, streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in mine:
        yield problem.name, results.get(problem.name, {"pass": False, "reason": "the thread died"})


def refusals(_: list[Problem]):
    """A call that is refused raises the right class with a readable text, writes nothing, and harms nothing."""
    good = RmsNorm()
    x, weight, out = good.x, good.weight, good.output
    cases: list[tuple[str, type, str, Callable[[], None]]] = [
        ("dtype", TypeError, "RT-C004", lambda: rooftile.rms_norm(out, x.double(), weight)),
        ("mixed dtypes", TypeError, "RT-C004", lambda: rooftile.rms_norm(out, x, weight.float())),
        ("weight on the CPU", ValueError, "RT-C008", lambda: rooftile.rms_norm(out, x, weight.cpu())),
        ("output on the CPU", ValueError, "RT-C008", lambda: rooftile.rms_norm(out.cpu(), x, weight)),
        ("shape", ValueError, "RT-C005", lambda: rooftile.rms_norm(out, x, weight[:-1])),
        ("transposed", ValueError, "RT-C006",
         lambda: rooftile.rms_norm(out, x.new_empty(x.shape[::-1]).T, weight)),
        ("overlap", ValueError, "RT-C010", lambda: rooftile.rms_norm(out, x, out[0])),
    ]
    for what, error_class, code, call in cases:
        good.refresh()
        try:
            call()
        except Exception as error:  # noqa: BLE001: which one it is is what is checked
            text, kind = str(error), type(error)
        else:
            text, kind = "accepted", type(None)
        torch.cuda.synchronize()
        untouched = bool(torch.isnan(out).all())
        good.call()
        after = verdict(good)
        right = kind is error_class and code in text and untouched and after["pass"]
        yield what, {"pass": right, "raised": kind.__name__, "text": text.splitlines()[0], "wrote_nothing": untouched,
                     "usable_after": after["pass"]}


def first_call_in_capture(_: list[Problem]):
    """A kernel that is not loaded yet cannot be while a stream is captured: an error says so, and the capture survives."""
    x, weight = torch.randn(5, 512, device=DEVICE), torch.randn(512, device=DEVICE)
    out, marker, text = torch.full_like(x, math.nan), torch.zeros(1, device=DEVICE), "accepted"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        marker.add_(1)
        try:
            rooftile.layer_norm(out, x, weight)
        except RuntimeError as error:
            text = str(error)
    graph.replay()
    torch.cuda.synchronize()
    captured_on = marker.item() == 1
    rooftile.layer_norm(out, x, weight)
    right = torch.allclose(out, F.layer_norm(x, (512,), weight), atol=1e-5)
    yield "layer_norm", {"pass": "RT-R007" in text and captured_on and right, "text": text.splitlines()[0],
                         "capture_survived": captured_on, "usable_after": right}


def host_time(all_problems: list[Problem]):
    """Microseconds of the calling thread, beside torch's own; information, not judged."""
    problem = all_problems[0]
    rivals = {"rooftile": problem.call, "torch": lambda: F.rms_norm(problem.x, problem.weight.shape, problem.weight, 1e-6)}
    for name, call in rivals.items():
        samples = []
        for _ in range(30):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(100):
                call()
            samples.append((time.perf_counter() - begin) * 1e4)
        torch.cuda.synchronize()
        samples.sort()
        yield f"{name} {problem.name}", {"pass": True, "host_us_p20": round(samples[6], 2),
                                         "host_us_p50": round(samples[15], 2)}


CHECKS = [eager, captured, side_stream, not_the_default_stream, two_threads, refusals, first_call_in_capture, host_time]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="also write the lines to this file")
    parser.add_argument("--only", choices=[check.__name__ for check in CHECKS], action="append")
    options = parser.parse_args()
    out = open(options.json, "w") if options.json else None
    failed = 0

    def emit(**line: object) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if out:
            out.write(text + "\n")
            out.flush()

    torch.manual_seed(time.time_ns() % 2**31)
    emit(check="environment", seed=torch.initial_seed(), rooftile=rooftile.version, torch=torch.__version__,
         gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda, tvm_ffi=rooftile.tvm_ffi.__version__)
    with torch.cuda.device(DEVICE):
        all_problems = problems()
        for check in CHECKS:
            if options.only and check.__name__ not in options.only:
                continue
            try:
                for what, facts in check(all_problems):
                    failed += not facts["pass"]
                    emit(check=check.__name__, what=what, **facts)
            except Exception as error:  # noqa: BLE001: the other checks are still worth their time
                failed += 1
                emit(check=check.__name__, **{"pass": False}, reason=f"{type(error).__name__}: {error}",
                     where=traceback.format_exc().splitlines()[-4:])
    emit(check="all", **{"pass": failed == 0}, failed=failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
