# SPDX-License-Identifier: Apache-2.0
"""Hand-written CUDA with Python interfaces: FlashAttention-3, FlashInfer, DeepGEMM."""
from __future__ import annotations

from ..case import Case, Tensors
from .base import Call, Peer, flash_attention_prefill, need, need_plain_attention

DENSE_PAGE = 64

class FlashAttention3(Peer):
    name, modules, package = "FlashAttention-3", ("flash_attn_interface",), "flash_attn_3"

    def attention_prefill(self, case: Case, t: Tensors) -> Call:
        from flash_attn_interface import flash_attn_func

        return flash_attention_prefill(flash_attn_func, case, t)

    def attention_decode(self, case: Case, t: Tensors) -> Call:
        from flash_attn_interface import flash_attn_with_kvcache

        need_plain_attention(case)
        q, pages = t["q"].unsqueeze(1), t.get("block_table")  # [B, 1, Hq, D]
        options = {"softmax_scale": case.attrs["scale"], "cache_seqlens": t["lengths"], "page_table": pages}

        def run() -> dict:
            out = flash_attn_with_kvcache(q, t["k"], t["v"], causal=True, **options)
            return {"o": (out[0] if isinstance(out, tuple) else out).squeeze(1)}

        return run


class FlashInfer(Peer):
    name, modules, package = "FlashInfer", ("flashinfer",), "flashinfer-python"

    def rms_norm(self, case: Case, t: Tensors) -> Call:
        import flashinfer
        import torch

        norm = flashinfer.norm.gemma_rmsnorm if case.flags["weight_plus_one"] else flashinfer.norm.rmsnorm
        out = torch.empty_like(t["x"])
        return lambda: {"out": norm(t["x"], t["weight"], eps=case.attrs["eps"], out=out)}

    def add_rms_norm(self, case: Case, t: Tensors) -> Call:
        import flashinfer

        need(case.plain(), "measured with plain weights")

        def run() -> dict:  # both in place, as it has it
            flashinfer.norm.fused_add_rmsnorm(t["x"], t["residual"], t["weight"], case.attrs["eps"])
            return {"out": t["x"], "residual": t["residual"]}

        return run

    def silu_and_mul(self, case: Case, t: Tensors) -> Call:
        import flashinfer
        import torch

        out = torch.empty_like(t["x"][:, : t["x"].shape[1] // 2])
        return lambda: {"out": flashinfer.activation.silu_and_mul(t["x"], out=out)}

    def attention_prefill(self, case: Case, t: Tensors) -> Call:
        import flashinfer

        need_plain_attention(case, causal_square=False)
        scale, causal = case.attrs["scale"], case.flags["causal"]
        return lambda: {"o": flashinfer.single_prefill_with_kv_cache(t["q"], t["k"], t["v"], causal=causal,
                                                                     sm_scale=scale)}

    def attention_decode(self, case: Case, t: Tensors) -> Call:
        import flashinfer
        import torch

        need_plain_attention(case)
        k, v, device, page = t["k"], t["v"], t["q"].device, case.shape["S"]
        if case.flags["kv_layout"] == "paged":
            table = t["block_table"]
        else:  # a dense cache is one of pages that follow each other; it shares out work by pages
            need(page % DENSE_PAGE == 0, f"rows of whole pages of {DENSE_PAGE} tokens")
            k, v = (cache.view(-1, DENSE_PAGE, *cache.shape[2:]) for cache in (k, v))
            table, page = torch.arange(k.shape[0], device=device).view(case.shape["B"], -1), DENSE_PAGE
        lengths = t["lengths"].tolist()
        counts = [-(-length // page) for length in lengths]
        starts = torch.tensor([0, *counts]).cumsum(0).int()
        pages = torch.cat([row[:count] for row, count in zip(table, counts)]).int()
        last = torch.tensor([length - (count - 1) * page for length, count in zip(lengths, counts)]).int()
        space = torch.empty(128 << 20, dtype=torch.uint8, device=device)
        decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, "NHD")
        decode.plan(starts, pages, last, case.shape["Hq"], case.shape["Hkv"], case.shape["D"], page,
                    q_data_type=t["q"].dtype, kv_data_type=k.dtype, sm_scale=case.attrs["scale"])
        return lambda: {"o": decode.run(t["q"], (k, v))}


class DeepGemm(Peer):
    name, modules, package = "DeepGEMM", ("deep_gemm",), "deep_gemm"

    def gemm(self, case: Case, t: Tensors) -> Call:
        import deep_gemm
        import torch

        need(case.dtype == "bf16" and case.plain() and not case.has("bias") and not case.has("c"), "plain bf16 products")
        need(case.attrs["alpha"] == 1, "no factor here")
        d = torch.empty_like(t["d"])

        def run() -> dict:
            deep_gemm.bf16_gemm_nt(t["a"], t["b"], d)
            return {"d": d}

        return run

    def gemm_fp8(self, case: Case, t: Tensors) -> Call:
        need(False, "its scales are one a 128-element block, ours one a tensor")
        return dict


PEERS: list[Peer] = [FlashAttention3(), FlashInfer(), DeepGemm()]
