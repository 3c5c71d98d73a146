# SPDX-License-Identifier: Apache-2.0
"""Quantiles and ratios of a race, and the JSON line of a measurement: the fields of `rooftile bench`."""
from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from .case import Case


def quantile(samples: list[float], q: float) -> float:
    """Between neighbours in proportion, as numpy's default."""
    ordered = sorted(samples)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def median_ratio(theirs: list[float], ours: list[float]) -> float:
    """Their time / ours, the median over rounds: what both suffered in a round falls out."""
    return quantile([t / o for t, o in zip(theirs, ours)], 0.5)


@dataclasses.dataclass
class PeerResult:
    name: str
    us: list[float]  # a sample a round
    norm_err: float | None = None  # of our result against theirs


@dataclasses.dataclass
class Measurement:
    case: Case
    us: list[float]
    peers: list[PeerResult]  # the fastest becomes the line's peer
    absent: dict[str, str]  # peers that were not timed, and why
    passed: bool
    reason: str = ""  # why it did not pass
    residency: str = ""
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)

    def json_line(self) -> str:
        case, timed = self.case, bool(self.us)
        p20, p50, p80 = (round(quantile(self.us, q), 3) if timed else None for q in (0.2, 0.5, 0.8))
        peers = [
            {
                "peer": peer.name,
                **{f"us_p{round(100 * q)}": round(quantile(peer.us, q), 3) for q in (0.2, 0.5, 0.8)},
                "ratio": round(median_ratio(peer.us, self.us), 4),
                "norm_err": peer.norm_err,
            }
            for peer in self.peers
            if timed and peer.us
        ]
        peers.sort(key=lambda peer: peer["us_p50"])
        best = peers[0] if peers else {"peer": None, "us_p50": None, "ratio": None}
        line = {
            "op": case.op,
            "kernel": None,
            "target": case.target,
            "device": self.provenance.get("device"),
            "dtype": case.dtype,
            "case": case.text,
            "shape": case.shape,
            "us_p20": p20,
            "us_p50": p50,
            "us_p80": p80,
            "tflops": round(case.flops / p50 * 1e-6, 3) if timed else None,
            "gb_per_s": round(case.bytes / p50 * 1e-3, 2) if timed else None,
            "roofline_fraction": round(case.roof_us / p50, 4) if timed and case.roof_us else None,
            "roof_us": case.roof_us,
            "bound": case.bound,
            "peer": best["peer"],
            "peer_us_p50": best["us_p50"],
            "ratio": best["ratio"],
            **({} if peers else {"no_peer": "; ".join(f"{k}: {v}" for k, v in self.absent.items())}),
            "peers": peers,
            "absent": self.absent,
            "checked": True,
            "pass": self.passed,
            **({} if self.passed else {"reason": self.reason}),
            "route": "tile",
            "flops": case.flops,
            "bytes": case.bytes,
            "residency": self.residency,
            "rounds": len(self.us),
            "harness": "python",
            **{key: value for key, value in self.provenance.items() if key != "device"},
        }
        return json.dumps(line)
