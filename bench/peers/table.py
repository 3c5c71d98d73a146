# SPDX-License-Identifier: Apache-2.0
"""Prints the lines of run.py as a table for a page:  python3 bench/peers/table.py bench/results/h200/peers.jsonl

Of several lines of a case the last counts. Numbers under a peer are its time / Rooftile's, in the same rounds.
"""
from __future__ import annotations

import json
import pathlib
import sys
from typing import Any


def short(peer: str) -> str:
    """Without the versions: "SDPA cuDNN, torch 2.11.0" is SDPA cuDNN."""
    return peer.split(",")[0].rsplit(" ", 1)[0] if "," not in peer else peer.split(",")[0]


def rate(line: dict[str, Any]) -> str:
    if line["bound"] == "compute":
        return f"{line['tflops']:.0f} TFLOP/s"
    return f"{line['gb_per_s'] / 1e3:.2f} TB/s"


def table(lines: list[dict[str, Any]]) -> str:
    last = {(line["op"], line["case"]): line for line in lines if line["us_p50"] is not None}
    last = dict(sorted(last.items(), key=lambda item: item[0][0]))  # by operator; their cases in the order they came in
    columns: list[str] = []
    for line in last.values():
        columns += [name for name in map(short, (peer["peer"] for peer in line["peers"])) if name not in columns]
    rows = ["| operator, case | us | | " + " | ".join(columns) + " |", "|---|---|---|" + "---|" * len(columns)]
    for line in last.values():
        ratios = {short(peer["peer"]): f"{peer['ratio']:.2f}" for peer in line["peers"]}
        cells = [f"{line['op']} {line['case']}", f"{line['us_p50']:.1f}", rate(line)]
        rows.append("| " + " | ".join(cells + [ratios.get(name, "") for name in columns]) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table([json.loads(line) for path in sys.argv[1:] for line in pathlib.Path(path).read_text().splitlines()]))
