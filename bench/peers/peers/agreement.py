# SPDX-License-Identifier: Apache-2.0
"""Whether two results of the same call agree, before either is timed."""
from __future__ import annotations

import dataclasses
from typing import Any

# Half the distance between neighbours at 1, by torch's name of the type.
ROUNDOFF = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-25}
# Both round to the output's type; attention also rounds its probabilities, and some peers an intermediate result. In f32 the
# two sum in different orders.
NORM_ROUNDINGS, WORST_ROUNDINGS = 4, 24
F32_SUM = 2.0**-15


@dataclasses.dataclass(frozen=True)
class Verdict:
    norm_err: float  # ||ours - theirs|| / ||theirs||
    reason: str = ""  # why they do not agree; "" if they do

    @property
    def agrees(self) -> bool:
        return not self.reason


def compare(ours: Any, theirs: Any) -> Verdict:
    """Torch tensors of one shape; integers must be equal. NaN never agrees, nor does a result that is all zero."""
    if tuple(ours.shape) != tuple(theirs.shape):
        return Verdict(float("nan"), f"shapes {list(ours.shape)} and {list(theirs.shape)}")
    if ours.numel() == 0:
        return Verdict(0.0)
    if not ours.is_floating_point():
        wrong = int((ours.long() != theirs.long()).sum())
        return Verdict(float(wrong), f"{wrong} of {ours.numel()} integers differ" if wrong else "")
    unit = ROUNDOFF[str(ours.dtype).removeprefix("torch.")]
    a, b = ours.float(), theirs.float()
    difference = a - b
    norm = (difference.norm() / b.norm()).item()
    scale = b.abs() + b.square().mean().sqrt()
    worst = (difference.abs() / scale).max().item()
    allowed = max(NORM_ROUNDINGS * unit, F32_SUM if unit < 2.0**-13 else 0)
    allowed_worst = max(WORST_ROUNDINGS * unit, 4 * F32_SUM if unit < 2.0**-13 else 0)
    if not norm <= allowed:
        return Verdict(norm, f"norm-wise error {norm:.3g}, allowed {allowed:.3g}")
    if not worst <= allowed_worst:
        return Verdict(norm, f"worst error {worst:.3g} of |value| + rms, allowed {allowed_worst:.3g}")
    return Verdict(norm)
