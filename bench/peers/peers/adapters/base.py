# SPDX-License-Identifier: Apache-2.0
"""What a peer is: a name, whether it can be used here, and a callable for each case that it can compute.

A peer's methods are named after the operators that it offers: `rms_norm(case, t)` prepares one call on the tensors `t`
(by the operator's names) and returns it; the call returns its results by the names of the operator's outputs. What is not
to be timed (reshaping weights, planning, compiling) happens in the method, not in the call.
"""
from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any, Callable

from ..case import Case, Tensors

Call = Callable[[], dict[str, Any]]


class Refused(Exception):
    """The peer cannot compute this case; the text says why."""


class Peer:
    name: str
    modules: tuple[str, ...] = ()  # that must be importable
    package: str = ""  # whose version is recorded

    def available(self) -> str | None:
        """None, or why it cannot be used on this machine."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001: packages fail to import in many ways
                return f"{type(error).__name__}: {error}".splitlines()[0]
        return None

    def version(self) -> str:
        try:
            return importlib.metadata.version(self.package) if self.package else ""
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def title(self) -> str:
        return f"{self.name} {self.version()}".strip()

    def prepare(self, case: Case, tensors: Tensors) -> Call:
        make = getattr(self, case.op, None)
        if make is None:
            raise Refused("does not have this operator")
        return make(case, tensors)


def need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Refused(otherwise)


def need_plain_attention(case: Case, *, causal_square: bool = True) -> None:
    """Whole sequences without the options that only some libraries have."""
    need(case.attrs["window_left"] == -1 and case.attrs.get("window_right", -1) == -1, "no sliding window here")
    need(not case.flags["softcap_on"] and not case.has("sink"), "no soft cap or sink here")
    need(not case.has("lse"), "does not return the log-sum-exp")
    need(not case.has("cu_q"), "packed sequences are another function")
    if causal_square and case.flags.get("causal"):
        need(case.shape["Tq"] == case.shape["Tk"], "its causal mask starts at the first key")


def flash_attention_prefill(flash_attn_func: Callable, case: Case, t: Tensors) -> Call:
    """The call that the editions of FlashAttention share; some return the log-sum-exp, too."""
    need_plain_attention(case, causal_square=False)  # bottom-right, as ours
    q, k, v = (t[name].unsqueeze(0) for name in "qkv")  # [1, T, H, D]
    scale, causal = case.attrs["scale"], case.flags["causal"]

    def run() -> dict:
        out = flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)
        return {"o": (out[0] if isinstance(out, tuple) else out).squeeze(0)}

    return run
