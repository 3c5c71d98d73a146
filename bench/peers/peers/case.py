# SPDX-License-Identifier: Apache-2.0
"""A case of an operator's own case list, as `rooftile bench --list --json` writes it, and its tensors on the GPU."""
from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

TORCH_DTYPES = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool",
}
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1, "i32": 4, "i64": 8, "bool": 1}
Tensors = dict[str, Any]  # by the operator's names; an absent optional tensor has no entry


@dataclasses.dataclass(frozen=True)
class Case:
    op: str
    dtype: str
    text: str
    shape: dict[str, int]
    tensors: dict[str, dict[str, Any]]  # name -> shape, dtype, role, and the range of an index tensor
    attrs: dict[str, float]
    flags: dict[str, Any]
    flops: float
    bytes: float
    target: str
    roof_us: float | None = None
    bound: str | None = None

    @staticmethod
    def from_json(line: str) -> "Case":
        entry = json.loads(line)
        entry["text"] = entry.pop("case")
        return Case(**entry)

    def has(self, tensor: str) -> bool:
        return tensor in self.tensors

    def plain(self, *but: str) -> bool:
        """Whether every flag but these is off or first in its list of choices (`none`, `nt`, `dense`)."""
        plain_values = (False, "none", "nt", "dense", "silu")
        return all(value in plain_values for name, value in self.flags.items() if name not in but)

    def set_bytes(self) -> int:
        total = 0
        for tensor in self.tensors.values():
            count = ITEM_BYTES[tensor["dtype"]]
            for extent in tensor["shape"]:
                count *= extent
            total += count
        return total


def read_cases(path: str | pathlib.Path) -> list[Case]:
    return [Case.from_json(line) for line in pathlib.Path(path).read_text().splitlines() if line.strip()]


def make_tensors(case: Case, device: Any) -> Tensors:
    """Random inputs, never zeros; outputs of NaN, or of the smallest integer, so that an element left out shows."""
    import torch

    out: Tensors = {}
    for name, about in case.tensors.items():
        dtype, shape = getattr(torch, TORCH_DTYPES[about["dtype"]]), about["shape"]
        if about["role"] == "out":
            out[name] = poisoned(shape, dtype, device)
        elif about["dtype"] in ("i32", "i64"):
            low, high = about.get("range", [0, 2])
            out[name] = torch.randint(low, max(high, low + 1), shape, dtype=dtype, device=device)
        elif about["dtype"] in ("i8", "u8"):
            out[name] = torch.randint(-127 if about["dtype"] == "i8" else 0, 128, shape, dtype=dtype, device=device)
        else:
            out[name] = torch.randn(shape, device=device).to(dtype)
    INDEX_TENSORS.get(case.op, lambda *_: None)(case, out)
    return out


def poisoned(shape: list[int], dtype: Any, device: Any) -> Any:
    import torch

    tensor = torch.empty(shape, dtype=dtype, device=device)
    tensor.fill_(float("nan") if dtype.is_floating_point else torch.iinfo(dtype).min)
    return tensor


def _full_caches(case: Case, tensors: Tensors) -> None:
    """Decode: every sequence fills its cache, pages in random order."""
    import torch

    capacity = case.shape["S"] * case.shape.get("MP", 1)
    tensors["lengths"].fill_(capacity)
    if "block_table" in tensors:
        table = tensors["block_table"]
        order = torch.randperm(max(case.shape["P"], table.numel()), device=table.device) % case.shape["P"]
        table.copy_(order[: table.numel()].view_as(table))


def _each_slot_once(case: Case, tensors: Tensors) -> None:
    import torch

    slots = tensors["slot_mapping"]
    order = torch.randperm(case.shape["P"] * case.shape["S"], device=slots.device)
    slots.copy_(order[: slots.numel()])


def _unit_scales(_: Case, tensors: Tensors) -> None:
    for name in ("scale_a", "scale_b"):
        tensors[name].fill_(0.5)


# Where random numbers in a range are not what the operator sees in use.
INDEX_TENSORS = {"attention_decode": _full_caches, "append_paged_kv": _each_slot_once, "gemm_fp8": _unit_scales}
