# SPDX-License-Identifier: Apache-2.0
"""A compiled kernel, called from Python through the real TVM-FFI: results, error classes and texts.

usage: tvm_ffi_test.py EXPORT_KERNEL
Needs the packages apache-tvm-ffi and numpy; without them it exits with 77, which CTest counts as skipped.
"""
import subprocess
import sys

try:
    import numpy as np
    import tvm_ffi
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

library, name = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.split()
rms_norm = getattr(tvm_ffi.load_module(library), name)
tensor = tvm_ffi.from_dlpack

x = np.random.default_rng().standard_normal((5, 37)).astype(np.float32)
weight = np.random.default_rng().standard_normal(37).astype(np.float32)
out = np.full_like(x, np.nan)
rms_norm(tensor(out), tensor(x), tensor(weight), 1e-6)
wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * weight
np.testing.assert_allclose(out, wanted, rtol=2e-6, atol=1e-6)


def refused(error_class, text, *args):
    before = out.copy()
    try:
        rms_norm(*args)
    except error_class as error:
        assert text in str(error), f"{text!r} is not in:\n{error}"
    else:
        raise AssertionError(f"accepted; expected {error_class.__name__} with {text!r}")
    np.testing.assert_array_equal(out, before)


good = [tensor(out), tensor(x), tensor(weight), 1e-6]
refused(TypeError, "RT-C001", *good[:3])
refused(TypeError, "`weight` is not a tensor", good[0], good[1], "weight", 1e-6)
refused(TypeError, "RT-C004", good[0], tensor(x.astype(np.float64)), good[2], 1e-6)
refused(ValueError, "weight.shape[0] = 36", good[0], good[1], tensor(weight[:36]), 1e-6)
refused(ValueError, "RT-C006", good[0], tensor(np.asfortranarray(x)), good[2], 1e-6)
refused(ValueError, "RT-C014", *good[:3], float("nan"))
rms_norm(*good)
np.testing.assert_allclose(out, wanted, rtol=2e-6, atol=1e-6)
print(f"tvm_ffi {tvm_ffi.__version__}: {name}: ok")
