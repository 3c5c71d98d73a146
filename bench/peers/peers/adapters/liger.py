# SPDX-License-Identifier: Apache-2.0
"""Liger: Triton kernels for training; their forward passes."""
from __future__ import annotations

from ..case import Case, Tensors
from .base import Call, Peer, need


class Liger(Peer):
    name, modules, package = "Liger", ("liger_kernel.ops.rms_norm",), "liger-kernel"

    def rms_norm(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.rms_norm import rms_norm_forward

        offset = float(case.flags["weight_plus_one"])
        x, weight, eps = t["x"], t["weight"], case.attrs["eps"]
        return lambda: {"out": rms_norm_forward(x, weight, eps, offset, "llama", None)[0]}

    def add_rms_norm(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward

        offset = float(case.flags["weight_plus_one"])
        x, residual, weight, eps = t["x"], t["residual"], t["weight"], case.attrs["eps"]

        def run() -> dict:
            out, total, *_ = fused_add_rms_norm_forward(x, residual, weight, eps, offset, "llama")
            return {"out": out, "residual": total}

        return run

    def layer_norm(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.layer_norm import layer_norm_forward

        need(case.has("bias"), "always has a bias")
        return lambda: {"out": layer_norm_forward(t["x"], t["weight"], t["bias"], case.attrs["eps"])[0]}

    def softmax(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.softmax import LigerSoftmaxFunction

        need(case.plain() and all(value in (0, 1) for value in case.attrs.values()), "options of our softmax")
        return lambda: {"out": LigerSoftmaxFunction.apply(t["x"])}

    def silu_and_mul(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.swiglu import swiglu_forward

        gate, up = (half.contiguous() for half in t["x"].chunk(2, -1))  # its interface takes two tensors
        return lambda: {"out": swiglu_forward(gate, up)[2]}

    def rope(self, case: Case, t: Tensors) -> Call:
        from liger_kernel.ops.rope import rope_forward

        need(case.has("k") and not case.flags["interleaved"], "rotates q and k, by halves")
        need(case.tensors["cos_sin"]["shape"][1] == case.shape["D"], "rotates whole heads")
        cos, sin = (half.repeat(1, 2).unsqueeze(0) for half in t["cos_sin"][t["positions"]].chunk(2, -1))
        q, k = (t[name].unsqueeze(0).transpose(1, 2) for name in "qk")

        def run() -> dict:
            turned = rope_forward(q, k, cos, sin)[:2]
            return {name: x.transpose(1, 2).squeeze(0) for name, x in zip("qk", turned)}

        return run


PEERS: list[Peer] = [Liger()]
