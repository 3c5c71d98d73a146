# SPDX-License-Identifier: Apache-2.0
"""What a measurement depends on: machine, clocks, versions. The names are those of `rooftile bench`."""
from __future__ import annotations

import datetime
import re
import subprocess
from typing import Any

from .adapters.base import Peer

_QUERY = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem", "power_w": "power.draw", "power_limit_w": "power.limit",
          "temperature_c": "temperature.gpu"}


def _nvidia_smi(fields: list[str]) -> list[str] | None:
    command = ["nvidia-smi", "--id=0", "--format=csv,noheader,nounits", "--query-gpu=" + ",".join(fields)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [field.strip() for field in run.stdout.split(",")]


def conditions() -> dict[str, float] | None:
    """Clocks, power and temperature now; None where they cannot be read."""
    values = _nvidia_smi(list(_QUERY.values()))
    try:
        return dict(zip(_QUERY, map(float, values))) if values else None
    except ValueError:
        return None


def short_device_name(name: str) -> str:
    """"NVIDIA H200" is h200: the first word that tells a device apart, as in the C++ lines."""
    words = [word for word in name.split() if word != "NVIDIA"]
    return words[0].lower() if words else name.lower()


def commit_of(version: str) -> str:
    """From "0.1.0 (499b54ad77cf)"."""
    found = re.search(r"\((.*)\)", version)
    return found.group(1) if found else version


def of_process(peers: list[Peer]) -> dict[str, Any]:
    import rooftile
    import torch

    name = torch.cuda.get_device_name(0)
    driver = _nvidia_smi(["driver_version"])
    return {
        "device": short_device_name(name),
        "gpu": name,
        "driver": driver[0] if driver else None,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "versions": {peer.package: peer.version() for peer in peers if peer.package},
        "commit": commit_of(rooftile.version),
        "timestamp": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
