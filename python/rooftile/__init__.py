# SPDX-License-Identifier: Apache-2.0
"""Rooftile's operators as Python functions, on whatever speaks DLPack: torch tensors, numpy arrays, ...

    import rooftile, torch
    x = torch.randn(16, 4096, device="cuda", dtype=torch.bfloat16)
    weight, out = torch.ones_like(x[0]), torch.empty_like(x)
    rooftile.rms_norm(out, x, weight, eps=1e-6)      # on torch's current stream
    help(rooftile.rms_norm)

Outputs are tensors of the caller's, like every other argument: nothing is allocated, copied or kept. Calls on CPU tensors
are done when they return; calls on CUDA tensors are queued on the stream that the tensors' framework has made current,
and can be captured into a graph once each shape has run outside it. What an operator refuses raises a TypeError,
ValueError or RuntimeError whose text says what was found and what is expected; then nothing has been written.

There is no list of operators here: the functions are made from what librooftile.so says of itself. The library is the
file that the environment variable ROOFTILE_LIBRARY names, or the one beside this file. Needs the package
apache-tvm-ffi.
"""
from __future__ import annotations

import json
import keyword
import os
import pathlib
from typing import Any, Callable

import tvm_ffi

__all__ = ["library_path", "operators", "version"]

_LIBRARY = "librooftile.so"


def _find_library() -> pathlib.Path:
    named = os.environ.get("ROOFTILE_LIBRARY")
    path = pathlib.Path(named) if named else pathlib.Path(__file__).with_name(_LIBRARY)
    if not path.is_file():
        where = "named by ROOFTILE_LIBRARY" if named else "beside the package; set ROOFTILE_LIBRARY to one"
        raise ImportError(f"rooftile: there is no {path} ({where})")
    return path.resolve()


library_path: pathlib.Path = _find_library()
_module = tvm_ffi.load_module(str(library_path))  # stays loaded: a captured graph may run its kernels
version: str = _module.version()
operators: dict[str, dict[str, Any]] = {entry["op"]: entry for entry in json.loads(_module.operators())}
"""The signature of each operator: tensors ("args"), attributes ("attrs"), flags and choices ("flags")."""


def _default(entry: dict[str, Any]) -> Any:
    """The default of an attribute, or of a flag (a bool) or choice (a name)."""
    if "values" not in entry:
        return float(entry["default"]) if entry["float"] else int(entry["default"])
    if entry["values"] == ["0", "1"]:
        return bool(entry["default"])
    return entry["values"][entry["default"]]


def _name(entry: dict[str, Any]) -> str:
    return entry["name"] + "_" * keyword.iskeyword(entry["name"])


def _describe(entry: dict[str, Any]) -> str:
    """One line of a docstring."""
    if "shape" in entry:
        dtypes = "|".join(entry["dtypes"]) or f"dtype of {entry['same_dtype_as']}"
        about = f"{entry['role']}, [{', '.join(entry['shape'])}], {dtypes}"
        about += ", optional" * entry["optional"]
    elif "values" in entry:
        about = "bool" if entry["values"] == ["0", "1"] else " | ".join(map(repr, entry["values"]))
    else:
        about = ("float" if entry["float"] else "int") + (f" in {entry['range']}" if "range" in entry else "")
    return f"    {_name(entry)}: {about}. {entry['doc']}"


def _make(signature: dict[str, Any]) -> Callable[..., None]:
    """The Python function of an operator.

    Written as text and compiled, so that a call costs no more than the keywords that it uses. The library takes all
    tensors first (None for an absent one), then attributes, then flags: the order of the signature.
    """
    tensors, values = signature["args"], signature["attrs"] + signature["flags"]
    required = [f"{_name(arg)}: Any" for arg in tensors if not arg["optional"]]
    optional = [f"{_name(arg)}: Any = None" for arg in tensors if arg["optional"]]
    defaults = {_name(value): _default(value) for value in values}
    keywords = [f"{name}: {type(default).__name__} = {default!r}" for name, default in defaults.items()]
    given = ", ".join(_name(entry) for entry in tensors + values)
    parameters = ", ".join(required + ["*"] * bool(optional or keywords) + optional + keywords)
    call = _module.get_function(signature["op"])
    # A call is shorter than what giving the interpreter's lock away may cost: beside a busy thread, 5 ms to get it back
    # instead of 5 us for the whole call (docs/performance/hopper.md).
    call.release_gil = False
    names = {"_call": call, "Any": Any}
    source = f"def {signature['op']}({parameters}) -> None:\n    _call({given})\n"
    exec(compile(source, f"<rooftile.{signature['op']}>", "exec", dont_inherit=True), names)
    function = names[signature["op"]]
    lines = [signature["summary"], "", *map(_describe, tensors + values)]
    function.__doc__ = "\n".join(lines)
    function.__module__ = __name__
    return function


for _signature in operators.values():
    globals()[_signature["op"]] = _make(_signature)
    __all__.append(_signature["op"])
