# SPDX-License-Identifier: Apache-2.0
"""All peers. A new one is a class in a file here (base.py says what it has) and its place in this list."""
from __future__ import annotations

from . import cuda_libraries, cute_dsl, liger, tilelang_peer, torch_peers
from .base import Peer

ALL: list[Peer] = [
    *torch_peers.PEERS, *liger.PEERS, *cute_dsl.PEERS, *cuda_libraries.PEERS, *tilelang_peer.PEERS,
]
