# SPDX-License-Identifier: Apache-2.0
"""librooftile.so and the Python package around it, on CPU tensors: results, refusals, and what the library shows.

Run by CTest with the package apache-tvm-ffi on the path; without it or numpy the exit status is 77: skipped.
"""
import inspect
import os
import pathlib
import subprocess
import sys
import threading
import unittest

try:
    import numpy as np
    import tvm_ffi  # noqa: F401: rooftile needs it; here for the reason to skip
except ImportError as error:
    print(f"skipped: {error}; `./dev build` brings what is missing")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import rooftile

rng = np.random.default_rng()


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, np.nan, dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Results(unittest.TestCase):
    def test_rms_norm(self):
        for dtype, rtol in ((np.float32, 2e-6), (np.float16, 2e-3)):
            x, weight, out = normal(5, 37, dtype=dtype), normal(37, dtype=dtype), poisoned(5, 37, dtype=dtype)
            rooftile.rms_norm(out, x, weight, eps=1e-3)
            exact = x.astype(np.float64)
            exact = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-3) * weight
            np.testing.assert_allclose(out, exact, rtol=rtol, atol=rtol)

    def test_gemm_with_optional_tensors_attributes_and_choices(self):
        a, b, bias = normal(33, 70), normal(45, 70), normal(45)
        c, d = normal(33, 45), poisoned(33, 45)
        rooftile.gemm(d, a, b, bias=bias, c=c, alpha=0.5, beta=2, activation="relu")
        exact = np.maximum(0.5 * a.astype(np.float64) @ b.T + bias, 0) + 2.0 * c
        np.testing.assert_allclose(d, exact, rtol=1e-5, atol=1e-4)
        rooftile.gemm(d, a, np.ascontiguousarray(b.T), layout="nn")
        np.testing.assert_allclose(d, a.astype(np.float64) @ b.T, rtol=1e-5, atol=1e-4)

    def test_attention_prefill(self):
        q, k, v, o = normal(19, 4, 16), normal(31, 2, 16), normal(31, 2, 16), poisoned(19, 4, 16)
        lse = poisoned(4, 19)
        rooftile.attention_prefill(o, q, k, v, lse=lse, scale=0.25, causal=True)
        hidden = np.arange(31)[None, :] > np.arange(19)[:, None] + 31 - 19
        for head in range(4):
            scores = np.where(hidden, -np.inf, 0.25 * q[:, head].astype(np.float64) @ k[:, head // 2].T)
            np.testing.assert_allclose(o[:, head], softmax(scores) @ v[:, head // 2], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(lse[head], np.log(np.exp(scores).sum(-1)), rtol=1e-5, atol=1e-5)

    def test_attention_decode_over_a_view(self):
        cache = normal(3, 2, 20, 16)  # [sequence, head, token, D]; the operator's axes are a view of it
        q, v, o = normal(3, 4, 16), normal(3, 20, 2, 16), poisoned(3, 4, 16)
        lengths = np.array([20, 1, 7], np.int32)
        rooftile.attention_decode(o, q, cache.transpose(0, 2, 1, 3), v, lengths, scale=0.25)
        for i, length in enumerate(lengths):
            for head in range(4):
                scores = 0.25 * cache[i, head // 2, :length].astype(np.float64) @ q[i, head]
                np.testing.assert_allclose(
                    o[i, head], softmax(scores) @ v[i, :length, head // 2], rtol=1e-5, atol=1e-5)

    def test_threads_share_the_library(self):
        wrong = []

        def run(rows):
            x, out = normal(rows, 64), poisoned(rows, 64)
            for _ in range(20):
                rooftile.softmax(out, x)
                if not np.allclose(out, softmax(x), rtol=1e-5, atol=1e-6):
                    wrong.append(rows)

        threads = [threading.Thread(target=run, args=(rows,)) for rows in (3, 17)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Refusals(unittest.TestCase):
    """Each raises the class that fits, with the whole text; nothing is written; the next call works."""

    def setUp(self):
        self.x, self.weight, self.out = normal(5, 37), normal(37), normal(5, 37)

    def refused(self, error_class, texts, call):
        self.out[:] = np.nan
        with self.assertRaises(error_class) as caught:
            call()
        for text in texts:
            self.assertIn(text, str(caught.exception))
        self.assertTrue(np.isnan(self.out).all())
        rooftile.rms_norm(self.out, self.x, self.weight)
        self.assertTrue(np.isfinite(self.out).all())

    def test_shape(self):
        self.refused(ValueError, ["error[RT-C005]", "weight.shape[0] = 36", "H = 37", "fix:"],
                     lambda: rooftile.rms_norm(self.out, self.x, self.weight[:36]))

    def test_dtype(self):
        self.refused(TypeError, ["error[RT-C004]", "f64", "bf16, f16, f32"],
                     lambda: rooftile.rms_norm(self.out, self.x.astype(np.float64), self.weight))

    def test_stride(self):
        self.refused(ValueError, ["error[RT-C006]", "`x`"],
                     lambda: rooftile.rms_norm(self.out, np.asfortranarray(self.x), self.weight))

    def test_output_in_the_way_of_an_input(self):
        self.refused(ValueError, ["error[RT-C010]"],
                     lambda: rooftile.rms_norm(self.out, self.x, self.out[0]))

    def test_missing_and_wrong_kinds(self):
        self.refused(TypeError, ["error[RT-C001]", "`weight` is missing"],
                     lambda: rooftile.rms_norm(self.out, self.x, None))
        self.refused(TypeError, ["error[RT-C002]", "`weight` is not a tensor", "a string"],
                     lambda: rooftile.rms_norm(self.out, self.x, "weight"))
        self.refused(TypeError, ["error[RT-C002]", "`eps`"],
                     lambda: rooftile.rms_norm(self.out, self.x, self.weight, eps="small"))
        self.refused(TypeError, ["required positional argument"], lambda: rooftile.rms_norm(self.out, self.x))

    def test_values(self):
        self.refused(ValueError, ["error[RT-C014]", "`eps`"],
                     lambda: rooftile.rms_norm(self.out, self.x, self.weight, eps=float("nan")))
        self.refused(ValueError, ["error[RT-C015]", '"tanhish"', "none, relu, silu"],
                     lambda: rooftile.gemm(self.out, self.x, self.x, activation="tanhish"))

    def test_index_outside_its_table(self):
        table, tokens = normal(10, 37), np.array([0, 3, 10, 2, 1], np.int32)
        self.refused(ValueError, ["error[RT-C012]", "10"], lambda: rooftile.embedding(self.out, tokens, table))


class Interface(unittest.TestCase):
    def test_every_operator_has_its_function(self):
        self.assertGreaterEqual(len(rooftile.operators), 18)
        for name, entry in rooftile.operators.items():
            parameters = inspect.signature(getattr(rooftile, name)).parameters
            self.assertEqual(len(parameters), len(entry["args"]) + len(entry["attrs"]) + len(entry["flags"]))
            for arg in entry["args"]:
                self.assertIn(arg["name"], getattr(rooftile, name).__doc__)

    def test_defaults_are_those_of_the_definition(self):
        parameters = inspect.signature(rooftile.rms_norm).parameters
        self.assertEqual(parameters["eps"].default, 1e-6)
        self.assertIs(parameters["weight_plus_one"].default, False)
        self.assertEqual(inspect.signature(rooftile.gemm).parameters["layout"].default, "nt")

    def test_nothing_else_is_visible(self):
        shown = subprocess.run(["nm", "-D", "--defined-only", str(rooftile.library_path)], check=True,
                               capture_output=True, text=True).stdout.split("\n")
        names = {line.split()[-1] for line in shown if line}
        wanted = {f"__tvm_ffi_{name}" for name in [*rooftile.operators, "operators", "version", "last_error"]}
        self.assertEqual(names, wanted)

    def test_the_libraries_of_benchmarks_are_not_needed(self):
        needed = subprocess.run(["readelf", "-d", str(rooftile.library_path)], check=True,
                                capture_output=True, text=True).stdout
        for library in ("dnnl", "openblas", "cuda", "tvm_ffi"):
            self.assertNotIn(library, needed)

    def test_a_process_without_tvm_ffi_reads_errors_and_listing(self):
        program = f"""
import ctypes, json
class Any(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("pad", ctypes.c_uint32), ("pointer", ctypes.c_char_p)]
library = ctypes.CDLL({str(rooftile.library_path)!r})
result = Any()
assert library.__tvm_ffi_operators(None, None, 0, ctypes.byref(result)) == 0 and result.type == 4
assert any(entry["op"] == "rms_norm" for entry in json.loads(result.pointer))
assert library.__tvm_ffi_rms_norm(None, None, 0, ctypes.byref(result)) == -1
assert library.__tvm_ffi_last_error(None, None, 0, ctypes.byref(result)) == 0
assert b"RT-C001" in result.pointer, result.pointer
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_a_missing_library_is_said_so(self):
        run = subprocess.run([sys.executable, "-c", "import rooftile"], capture_output=True, text=True,
                             env={**os.environ, "ROOFTILE_LIBRARY": "/nowhere/librooftile.so",
                                  "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("there is no /nowhere/librooftile.so (named by ROOFTILE_LIBRARY)", run.stderr)


if __name__ == "__main__":
    unittest.main()
