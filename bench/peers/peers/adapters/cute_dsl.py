# SPDX-License-Identifier: Apache-2.0
"""Kernels in NVIDIA's CuTe DSL: quack (rows) and FlashAttention's CuTe edition. Both need nvidia-cutlass-dsl."""
from __future__ import annotations

from ..case import Case, Tensors
from .base import Call, Peer, flash_attention_prefill, need


class Quack(Peer):
    name, modules, package = "quack", ("cutlass", "quack"), "quack-kernels"

    def rms_norm(self, case: Case, t: Tensors) -> Call:
        from quack.rmsnorm import rmsnorm_fwd

        x, weight, eps, offset = t["x"], t["weight"], case.attrs["eps"], float(case.flags["weight_plus_one"])
        return lambda: {"out": rmsnorm_fwd(x, weight, eps=eps, weight_offset=offset)[0]}

    def add_rms_norm(self, case: Case, t: Tensors) -> Call:
        from quack.rmsnorm import rmsnorm_fwd

        need(case.plain(), "measured with plain weights")
        x, weight, residual, eps = t["x"], t["weight"], t["residual"], case.attrs["eps"]

        def run() -> dict:
            out, total, _ = rmsnorm_fwd(x, weight, residual=residual, residual_dtype=residual.dtype, eps=eps)
            return {"out": out, "residual": total}

        return run

    def softmax(self, case: Case, t: Tensors) -> Call:
        from quack.softmax import softmax_fwd

        need(case.plain() and all(value in (0, 1) for value in case.attrs.values()), "options of our softmax")
        return lambda: {"out": softmax_fwd(t["x"])}

    def cross_entropy(self, case: Case, t: Tensors) -> Call:
        from quack.cross_entropy import cross_entropy_fwd

        need(case.attrs["z_loss"] == 0 and case.attrs["label_smoothing"] == 0 and not case.has("lse"), "the plain loss")
        targets, ignore = t["targets"].long(), int(case.attrs["ignore_index"])
        return lambda: {"loss": cross_entropy_fwd(t["logits"], targets, ignore_index=ignore)}


class FlashAttentionCute(Peer):
    name, modules, package = "FlashAttention CuTe", ("cutlass", "flash_attn.cute"), "flash-attn-4"

    def attention_prefill(self, case: Case, t: Tensors) -> Call:
        from flash_attn.cute import flash_attn_func

        return flash_attention_prefill(flash_attn_func, case, t)


PEERS: list[Peer] = [Quack(), FlashAttentionCute()]
