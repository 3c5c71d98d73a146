# SPDX-License-Identifier: Apache-2.0
"""Times Rooftile's operators beside what one would use instead of them, in one process on one GPU.

    build/rooftile bench gemm rms_norm --device cuda --set large --list --json cases.jsonl \
        --ceilings bench/results/h200/calibrate.jsonl
    ROOFTILE_LIBRARY=build/librooftile.so python3 bench/peers/run.py --cases cases.jsonl --json peers.jsonl

For each case: random inputs; our result and each peer's must agree, else it is not timed; then all are timed in turns
(peers/race.py). One JSON line a case with the fields of `rooftile bench`; peers that are not there, or cannot compute the
case, are in it with the reason. The exit status is 1 if a result was wrong, and
3 if a contestant made the GPU unusable.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

from peers import adapters, agreement, provenance, race  # noqa: E402
from peers.adapters.base import Call, Peer, Refused  # noqa: E402
from peers.adapters.ours import Rooftile  # noqa: E402
from peers.case import Case, Tensors, make_tensors, read_cases  # noqa: E402
from peers.stats import Measurement, PeerResult  # noqa: E402


def clone(tensors: Tensors) -> Tensors:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def checked(case: Case, tensors: Tensors, ours: Peer, peers: list[Peer], line: Measurement) -> list[Peer]:
    """The peers that compute this case as we do; what else there is to say goes into the line."""
    import torch

    agreed: list[Peer] = []
    mine = ours.prepare(case, clone(tensors))()
    torch.cuda.synchronize()
    for peer in peers:
        try:
            theirs = peer.prepare(case, clone(tensors))()
            torch.cuda.synchronize()
        except Refused as refusal:
            line.absent[peer.name] = str(refusal)
            continue
        except Exception as error:  # noqa: BLE001: whatever a library raises
            line.absent[peer.name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        verdicts = {name: agreement.compare(mine[name], result) for name, result in theirs.items()}
        bad = next((f"{name}: {verdict.reason}" for name, verdict in verdicts.items() if not verdict.agrees), "")
        if bad:
            line.absent[peer.name] = "disagrees: " + bad
        else:
            agreed.append(peer)
            norm = max(verdict.norm_err for verdict in verdicts.values())
            line.peers.append(PeerResult(peer.title(), [], norm))
    disagree = [f"{name} {why}" for name, why in line.absent.items() if why.startswith("disagrees")]
    if disagree and not agreed:
        line.passed, line.reason = False, "; ".join(disagree)
    return agreed


def calls_of(peer: Peer, case: Case, sets: list[Tensors]) -> list[Call]:
    return [peer.prepare(case, tensors) for tensors in sets]


def measure(case: Case, peers: list[Peer], absent: dict[str, str], options: argparse.Namespace) -> Measurement:
    import torch

    device = torch.device("cuda", 0)
    line = Measurement(case, [], [], dict(absent), True)
    tensors, ours = make_tensors(case, device), Rooftile()
    begin = time.perf_counter()
    agreed = checked(case, tensors, ours, peers, line)
    line.provenance = {"check_s": round(time.perf_counter() - begin, 2), "before": provenance.conditions()}
    if not line.passed:
        return line
    properties = torch.cuda.get_device_properties(device)
    free = torch.cuda.mem_get_info(device)[0]
    count = race.num_sets(case.set_bytes(), case.bytes, properties.L2_cache_size, free)
    sets = [tensors] + [clone(tensors) for _ in range(count - 1)]
    sweep = None
    if count == 1:
        noise = torch.randn(properties.L2_cache_size // 2, device=device)  # twice the cache, in f32
        sweep = noise.sum
    line.residency = race.residency(count, case.set_bytes(), properties.L2_cache_size)
    stream, contestants, timed = torch.cuda.Stream(), [], []
    for peer, result in zip([ours, *agreed], [None, *line.peers]):
        try:
            contestants.append(race.Contestant(calls_of(peer, case, sets), stream, sweep))
        except Exception as error:  # noqa: BLE001
            if result is None:
                raise
            torch.cuda.synchronize()
            line.absent[peer.name] = f"cannot be captured into a graph: {type(error).__name__}: {error}".splitlines()[0]
            continue
        timed.append(result)
    samples = race.race(contestants, options.rounds, options.seconds)
    line.us, line.peers = samples[0], [PeerResult(r.name, us, r.norm_err) for r, us in zip(timed[1:], samples[1:])]
    line.provenance["after"] = provenance.conditions()
    return line


def device_lost() -> str:
    """Why no more can run on the GPU in this process, as after an illegal access by whichever contestant; "" if all is well."""
    import torch

    try:
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001: what it says is what is asked for
        return f"{error}".splitlines()[0]
    return ""


def summary(line: Measurement) -> str:
    from peers.stats import median_ratio, quantile

    if not line.us:
        return f"{line.case.op} {line.case.text}: {line.reason or 'not timed'}"
    rates = (f"{line.case.flops / quantile(line.us, 0.5) * 1e-6:.0f} TFLOP/s" if line.case.bound == "compute"
             else f"{line.case.bytes / quantile(line.us, 0.5) * 1e-3:.0f} GB/s")
    rivals = ", ".join(f"{peer.name} {quantile(peer.us, 0.5):.1f} us ({median_ratio(peer.us, line.us):.2f})"
                       for peer in line.peers)
    return (f"{line.case.op} {line.case.text}: {quantile(line.us, 0.5):.1f} us, {rates}; {rivals or 'no peer'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", required=True, help="what `rooftile bench --list --json` wrote")
    parser.add_argument("--op", action="append", help="these operators alone")
    parser.add_argument("--peer", action="append", help="peers whose names begin with one of these, alone")
    parser.add_argument("--json", help="append the lines to this file")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="most time for the rounds of a case")
    parser.add_argument("--budget", type=float, default=float("inf"), help="start no case after so many seconds")
    options = parser.parse_args()

    begin = time.monotonic()
    chosen = [peer for peer in adapters.ALL
              if not options.peer or any(peer.name.lower().startswith(name.lower()) for name in options.peer)]
    reasons = {peer: peer.available() for peer in chosen}
    absent = {peer.name: reason for peer, reason in reasons.items() if reason}
    peers = [peer for peer in chosen if not reasons[peer]]
    for name, reason in absent.items():
        print(f"absent: {name}: {reason}", flush=True)
    facts = provenance.of_process(peers)
    failed, skipped, lost = 0, [], ""
    for case in read_cases(options.cases):
        if options.op and case.op not in options.op:
            continue
        if time.monotonic() - begin > options.budget:
            skipped.append(f"{case.op} {case.text}")
            continue
        try:
            line = measure(case, peers, absent, options)
        except Exception as error:  # noqa: BLE001: the other cases are still worth their time
            line = Measurement(case, [], [], absent, False, f"{type(error).__name__}: {error}".splitlines()[0])
            lost = device_lost()
        line.provenance.update(facts)
        failed += not line.passed
        print(summary(line), flush=True)
        for name, reason in line.absent.items():
            if name not in absent:
                print(f"    {name}: {reason}", flush=True)
        if lost:
            print(f"the GPU is lost to this process ({lost}): run this case with one --peer at a time", flush=True)
            return 3
        if options.json:
            with open(options.json, "a") as out:
                out.write(line.json_line() + "\n")
    for what in skipped:
        print(f"left out, the time was up: {what}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
