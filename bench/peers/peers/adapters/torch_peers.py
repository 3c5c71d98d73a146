# SPDX-License-Identifier: Apache-2.0
"""PyTorch: its eager kernels (cuBLAS for products), the same functions compiled by Inductor, and its fused attention."""
from __future__ import annotations

import functools
from typing import Any

from ..case import Case, Tensors
from .base import Call, Peer, need, need_plain_attention

# Inductor writes kernels of its own for these; it would hand products to cuBLAS, which eager torch is timed with.
ROW_OPERATORS = {"rms_norm", "add_rms_norm", "layer_norm", "softmax", "silu_and_mul", "gelu_and_mul", "cross_entropy",
                 "argmax", "embedding", "rope"}


class Torch(Peer):
    name, modules, package = "torch", ("torch",), "torch"

    def prepare(self, case: Case, tensors: Tensors) -> Call:
        from . import torch_functions

        make = getattr(torch_functions, case.op, None)
        need(make is not None, "does not have this operator")
        function, names = make(case)
        return functools.partial(function, *(tensors[name] for name in names))


class Inductor(Peer):
    name, modules, package = "Inductor, torch", ("torch", "triton"), "torch"

    def __init__(self) -> None:
        self.compiled: dict[tuple[str, str, str], Any] = {}

    def prepare(self, case: Case, tensors: Tensors) -> Call:
        import torch

        from . import torch_functions

        need(case.op in ROW_OPERATORS, "left to torch's own kernels")
        function, names = getattr(torch_functions, case.op)(case)
        key = (case.op, case.dtype, case.text)
        if key not in self.compiled:
            self.compiled[key] = torch.compile(function, dynamic=False, fullgraph=True)
        return functools.partial(self.compiled[key], *(tensors[name] for name in names))


class Sdpa(Peer):
    """scaled_dot_product_attention with one back end, which refuses what it cannot do."""

    modules, package = ("torch",), "torch"

    def __init__(self, name: str, backend: str):
        self.name, self.backend = f"SDPA {name}, torch", backend

    def call(self, case: Case, q: Any, k: Any, v: Any, causal: bool, back: Any) -> Call:
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend, scale = getattr(SDPBackend, self.backend), case.attrs["scale"]
        grouped = case.shape["Hq"] != case.shape["Hkv"]

        def run() -> dict[str, Any]:
            with sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
            return {"o": back(out)}

        return run

    def attention_prefill(self, case: Case, t: Tensors) -> Call:
        need_plain_attention(case)
        q, k, v = (t[name].transpose(0, 1).unsqueeze(0) for name in "qkv")  # [1, H, T, D]
        return self.call(case, q, k, v, case.flags["causal"], lambda out: out.squeeze(0).transpose(0, 1))

    def attention_decode(self, case: Case, t: Tensors) -> Call:
        need_plain_attention(case)
        need(case.flags["kv_layout"] == "dense", "no paged caches")
        need(bool((t["lengths"] == case.shape["S"]).all()), "one length for all sequences")
        q, (k, v) = t["q"].unsqueeze(2), (t[name].transpose(1, 2) for name in "kv")  # [B, H, tokens, D]
        return self.call(case, q, k, v, False, lambda out: out.squeeze(2))


PEERS: list[Peer] = [Torch(), Inductor(), Sdpa("flash", "FLASH_ATTENTION"), Sdpa("cuDNN", "CUDNN_ATTENTION")]
