# SPDX-License-Identifier: Apache-2.0
"""The operators in torch, as one would write them in a model: run as they are, or compiled by Inductor.

Each takes a case and returns a function of the tensors that returns the results; only what the case asks for.
"""
from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F

from ..case import TORCH_DTYPES, Case
from .base import need

Function = Callable[..., dict[str, Any]]


def rms_norm(case: Case) -> tuple[Function, list[str]]:
    need(case.plain(), "weights around zero are not an option here")
    eps = case.attrs["eps"]
    return lambda x, weight: {"out": F.rms_norm(x, weight.shape, weight, eps)}, ["x", "weight"]


def add_rms_norm(case: Case) -> tuple[Function, list[str]]:
    need(case.plain(), "weights around zero are not an option here")
    eps = case.attrs["eps"]

    def function(x: Any, residual: Any, weight: Any) -> dict[str, Any]:
        total = x + residual
        return {"out": F.rms_norm(total, weight.shape, weight, eps), "residual": total}

    return function, ["x", "residual", "weight"]


def layer_norm(case: Case) -> tuple[Function, list[str]]:
    eps = case.attrs["eps"]
    if case.has("bias"):
        return lambda x, weight, bias: {"out": F.layer_norm(x, weight.shape, weight, bias, eps)}, ["x", "weight", "bias"]
    return lambda x, weight: {"out": F.layer_norm(x, weight.shape, weight, None, eps)}, ["x", "weight"]


def softmax(case: Case) -> tuple[Function, list[str]]:
    need(case.plain() and all(value in (0, 1) for value in case.attrs.values()), "options of our softmax")
    return lambda x: {"out": torch.softmax(x, -1)}, ["x"]


def silu_and_mul(case: Case) -> tuple[Function, list[str]]:
    def function(x: Any) -> dict[str, Any]:
        gate, up = x.chunk(2, -1)
        return {"out": F.silu(gate) * up}

    return function, ["x"]


def gelu_and_mul(case: Case) -> tuple[Function, list[str]]:
    approximate = "tanh" if any("tanh" in str(value) or value is True for value in case.flags.values()) else "none"

    def function(x: Any) -> dict[str, Any]:
        gate, up = x.chunk(2, -1)
        return {"out": F.gelu(gate, approximate=approximate) * up}

    return function, ["x"]


def cross_entropy(case: Case) -> tuple[Function, list[str]]:
    need(case.attrs["z_loss"] == 0 and not case.has("lse"), "no z-loss and no log-sum-exp here")
    ignore, smoothing = int(case.attrs["ignore_index"]), case.attrs["label_smoothing"]

    def function(logits: Any, targets: Any) -> dict[str, Any]:
        loss = F.cross_entropy(logits.float(), targets.long(), ignore_index=ignore, label_smoothing=smoothing,
                               reduction="none")
        return {"loss": loss}

    return function, ["logits", "targets"]


def argmax(case: Case) -> tuple[Function, list[str]]:
    return lambda x: {"out": torch.argmax(x, -1).int()}, ["x"]


def embedding(case: Case) -> tuple[Function, list[str]]:
    need(not case.flags["zero_out_of_range"], "no zeros for ids outside the table")
    return lambda ids, table: {"out": F.embedding(ids, table)}, ["ids", "table"]


def rope(case: Case) -> tuple[Function, list[str]]:
    need(not case.flags["interleaved"], "halves, not neighbours")
    names = ["q", "k"] if case.has("k") else ["q"]

    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        width = cos.shape[-1]
        low, high, rest = x[..., :width].float(), x[..., width : 2 * width].float(), x[..., 2 * width :]
        turned = torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned

    def function(cos_sin: Any, positions: Any, *rotated: Any) -> dict[str, Any]:
        cos, sin = cos_sin[positions].unsqueeze(1).chunk(2, -1)
        return {name: rotate(x, cos, sin) for name, x in zip(names, rotated)}

    return function, ["cos_sin", "positions", *names]


def gated_mlp(case: Case) -> tuple[Function, list[str]]:
    need(case.flags["activation"] == "silu", "written with SiLU here")
    return lambda x, w_gate, w_up: {"out": F.silu(x @ w_gate.T) * (x @ w_up.T)}, ["x", "w_gate", "w_up"]


def gemm(case: Case) -> tuple[Function, list[str]]:
    need(case.flags["activation"] == "none" and not case.has("c"), "no epilogue but the bias here")
    need(case.attrs["alpha"] == 1, "no factor here")
    output, layout = case.tensors["d"]["dtype"], case.flags["layout"]
    turn = (lambda b: b.T) if layout == "nt" else (lambda b: b)
    if case.dtype == "i8":
        need(output == "i32" and not case.has("bias"), "int8 products have 32-bit results")
        return lambda a, b: {"d": torch._int_mm(a, turn(b))}, ["a", "b"]
    need(output == case.dtype, "the result has the type of the operands")
    if case.has("bias"):
        return lambda a, b, bias: {"d": torch.addmm(bias, a, turn(b))}, ["a", "b", "bias"]
    return lambda a, b: {"d": torch.mm(a, turn(b))}, ["a", "b"]


def gemm_batched(case: Case) -> tuple[Function, list[str]]:
    need(case.flags["activation"] == "none" and not case.has("c") and not case.has("bias"), "no epilogue here")
    need(case.attrs["alpha"] == 1 and case.tensors["d"]["dtype"] == case.dtype, "no factor, no other type here")
    turn = (lambda b: b.mT) if case.flags["layout"] == "nt" else (lambda b: b)
    return lambda a, b: {"d": torch.bmm(a, turn(b))}, ["a", "b"]


def gemm_fp8(case: Case) -> tuple[Function, list[str]]:
    need(not case.has("bias"), "no bias here")
    dtype = getattr(torch, TORCH_DTYPES[case.tensors["d"]["dtype"]])

    def function(a: Any, b: Any, scale_a: Any, scale_b: Any) -> dict[str, Any]:
        return {"d": torch._scaled_mm(a, b.T, scale_a, scale_b, out_dtype=dtype)}

    return function, ["a", "b", "scale_a", "scale_b"]
