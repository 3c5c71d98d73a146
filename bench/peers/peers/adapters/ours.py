# SPDX-License-Identifier: Apache-2.0
"""Rooftile, as a user calls it from Python."""
from __future__ import annotations

import functools

from ..case import Case, Tensors
from .base import Call, Peer


class Rooftile(Peer):
    name, modules = "rooftile", ("rooftile",)

    def prepare(self, case: Case, tensors: Tensors) -> Call:
        import rooftile

        function = getattr(rooftile, case.op)
        signature = rooftile.operators[case.op]
        required = [tensors[arg["name"]] for arg in signature["args"] if not arg["optional"]]
        named = {arg["name"]: tensors.get(arg["name"]) for arg in signature["args"] if arg["optional"]}
        call = functools.partial(function, *required, **named, **case.attrs, **case.flags)
        results = {arg["name"]: tensors[arg["name"]] for arg in signature["args"]
                   if arg["role"] != "in" and arg["name"] in tensors}

        def run() -> dict:
            call()
            return results

        return run
