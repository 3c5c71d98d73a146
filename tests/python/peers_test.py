# SPDX-License-Identifier: Apache-2.0
"""The peer harness without a GPU: statistics, plans, the line's format, and what it says of peers that are not there.

usage: peers_test.py ROOFTILE    (the program, for its list of cases)
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    np = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
from peers import adapters, agreement, provenance, race
from peers.adapters.base import Peer, Refused, need_plain_attention
from peers.case import read_cases
from peers.stats import Measurement, PeerResult, median_ratio, quantile

ROOFTILE = ""
CEILINGS = {
    "busy": False, "copy_gb_per_s": 4000.0, "device": "NVIDIA H200", "isa": "sm_90a", "launch_us": 0.5, "measured_at": "",
    "peaks": {"bf16": {"gflops": 9e5, "mechanism": "wgmma"}, "f32": {"gflops": 6e4, "mechanism": "fma"}},
    "read_gb_per_s": 4000.0, "target": "sm90", "threads": 0,
}


def listed(op, *words):
    """Cases as the program lists them."""
    with tempfile.TemporaryDirectory() as folder:
        cases, ceilings = pathlib.Path(folder, "cases.jsonl"), pathlib.Path(folder, "ceilings.jsonl")
        ceilings.write_text(json.dumps(CEILINGS) + "\n")
        subprocess.run([ROOFTILE, "bench", op, "--device", "cuda", "--list", "--json", str(cases), "--ceilings",
                        str(ceilings), *words], check=True, capture_output=True)
        return read_cases(cases)


class Statistics(unittest.TestCase):
    def test_quantiles_lie_between_neighbours(self):
        self.assertEqual(quantile([4.0, 1.0, 3.0, 2.0], 0.5), 2.5)
        self.assertEqual(quantile([5.0], 0.8), 5.0)
        self.assertAlmostEqual(quantile([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.2), 2.0)

    def test_the_ratio_is_taken_within_rounds(self):
        # Both slow down threefold half-way: the medians of the times would say 3.
        ours, theirs = [1.0, 1.0, 3.0, 3.0, 3.0], [2.0, 2.0, 6.0, 6.0, 6.0]
        self.assertEqual(median_ratio(theirs, ours), 2.0)

    def test_the_order_turns(self):
        self.assertEqual([race.order_of_round(i, 3) for i in range(4)], [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]])

    def test_samples_are_long_and_whole_turns(self):
        for us, sets in ((0.6, 64), (3.0, 7), (3000.0, 2)):
            count = race.calls_of_a_sample(us, sets)
            self.assertEqual(count % sets, 0)
            self.assertTrue(count * us >= race.SAMPLE_US or count + sets > race.MAX_CALLS, (us, sets, count))
        self.assertEqual(race.calls_of_a_sample(3000.0, 2), 2)

    def test_copies_exceed_the_cache_and_fit_the_memory(self):
        l2 = 50 << 20
        self.assertGreater(race.num_sets(20 << 20, 20 << 20, l2, 1 << 40) * (20 << 20), 2 * l2 - 1)
        self.assertEqual(race.num_sets(1 << 10, 1 << 10, l2, 1 << 40), race.MAX_SETS)
        self.assertEqual(race.num_sets(1 << 30, 1 << 30, l2, 4 << 30), 2)
        self.assertEqual(race.num_sets(1 << 30, 1 << 20, l2, 1 << 40), 1)  # a few rows of a table: swept
        self.assertEqual(race.residency(6, 20 << 20, l2), "rotated over 6 copies, 125.8 MB")
        self.assertEqual(race.residency(256, 1 << 10, l2), "rotated over 256 copies, 0.3 MB: within the L2")
        self.assertEqual(race.residency(1, 1 << 30, l2), "L2 swept before each call")


class Numbers:
    """As much of a torch tensor as agreement.compare uses, in numpy."""

    def __init__(self, data, dtype="torch.bfloat16"):
        self.data, self.dtype = np.asarray(data, dtype=np.float64), dtype
        self.shape = self.data.shape

    def numel(self):
        return self.data.size

    def is_floating_point(self):
        return "float" in self.dtype

    def float(self):
        return Numbers(self.data, "torch.float32")

    def long(self):
        return Numbers(self.data, "torch.int64")

    def item(self):
        return float(self.data)

    def __int__(self):
        return int(self.data)

    def __sub__(self, other):
        return Numbers(self.data - other.data)

    def __add__(self, other):
        return Numbers(self.data + other.data)

    def __truediv__(self, other):
        with np.errstate(divide="ignore", invalid="ignore"):
            return Numbers(self.data / other.data)

    def __ne__(self, other):
        return Numbers(self.data != other.data)

    def __getattr__(self, name):
        functions = {"abs": np.abs, "norm": lambda x: np.sqrt((x**2).sum()), "square": np.square, "mean": np.mean,
                     "sqrt": np.sqrt, "max": np.max, "sum": np.sum}
        if name not in functions:
            raise AttributeError(name)
        return lambda: Numbers(functions[name](self.data))


@unittest.skipIf(np is None, "no numpy")
class Agreement(unittest.TestCase):
    values = [[1.0, -2.0, 0.5], [3.0, 0.001, -1.0]]

    def compare(self, ours, theirs, dtype="torch.bfloat16"):
        return agreement.compare(Numbers(ours, dtype), Numbers(theirs, dtype))

    def test_roundings_agree(self):
        near = np.array(self.values) * (1 + 2.0**-8)
        self.assertTrue(self.compare(self.values, near).agrees)
        self.assertTrue(self.compare(self.values, self.values, "torch.float32").agrees)

    def test_what_is_further_away_does_not(self):
        self.assertIn("norm-wise", self.compare(self.values, np.array(self.values) * 1.02).reason)
        self.assertIn("norm-wise", self.compare(self.values, np.array(self.values) * (1 + 2.0**-8), "torch.float32").reason)
        many = np.ones(100_000)
        one_wrong = many.copy()
        one_wrong[77] = 1.5
        self.assertIn("worst", self.compare(one_wrong, many).reason)

    def test_nan_zeros_and_other_shapes_do_not(self):
        for other in (np.full((2, 3), np.nan), np.zeros((2, 3))):
            self.assertFalse(self.compare(other, self.values).agrees)
            self.assertFalse(self.compare(self.values, other).agrees)
        self.assertIn("shapes", self.compare(self.values, [1.0]).reason)

    def test_integers_are_equal_or_not(self):
        self.assertTrue(self.compare([1, 2, 3], [1, 2, 3], "torch.int32").agrees)
        self.assertEqual(self.compare([1, 2, 4], [1, 2, 3], "torch.int32").reason, "1 of 3 integers differ")


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.case = listed("gemm", "--case", "M=64 N=128 K=256 bias=bf16")[0]

    def test_cases_come_from_the_program(self):
        case = self.case
        self.assertEqual((case.op, case.dtype, case.text), ("gemm", "bf16", "M=64 N=128 K=256 bias=bf16"))
        self.assertEqual(case.shape, {"K": 256, "M": 64, "N": 128})
        self.assertEqual(case.tensors["b"], {"shape": [128, 256], "dtype": "bf16", "role": "in"})
        self.assertEqual((case.tensors["d"]["role"], case.has("bias"), case.has("c")), ("out", True, False))
        self.assertEqual((case.flags["layout"], case.flags["activation"], case.attrs["alpha"]), ("nt", "none", 1.0))
        self.assertEqual(case.flops, 2 * 64 * 128 * 256)
        self.assertEqual(case.set_bytes(), 2 * (64 * 128 + 64 * 256 + 128 * 256 + 128))
        self.assertEqual(case.bound, "launch")
        self.assertEqual(listed("gemm", "--set", "large")[0].bound, "compute")

    def test_ranges_of_index_tensors_are_listed(self):
        case = listed("embedding", "--case", "T=4 V=1000 H=64")[0]
        self.assertEqual(case.tensors["ids"]["range"], [0, 1000])

    def test_the_fields_are_those_of_rooftile_bench(self):
        line = Measurement(self.case, [4.0, 2.0, 3.0], [PeerResult("slow 1", [9.0, 9.0, 9.0], 0.001),
                                                        PeerResult("quick 2", [6.0, 6.0, 6.0], 0.002)],
                           {"gone": "ModuleNotFoundError: no gone"}, True, provenance={"device": "h200", "commit": "abc"})
        fields = json.loads(line.json_line())
        with open(pathlib.Path(__file__).parents[2] / "bench" / "results" / "h200" / "large.jsonl") as results:
            gemm = next(entry for entry in map(json.loads, results) if entry["op"] == "gemm")
        ours_alone = {"check_case", "max_abs", "max_rel", "norm_err", "tol", "seed", "peer_norm_err", "schedule", "prepacked",
                      "warmup", "busy", "compile_ms", "first_call_us"}  # of the C++ harness
        of_the_process = {"gpu", "driver", "cuda", "nvrtc", "cublaslt", "before", "after", "timestamp"}  # provenance
        self.assertLessEqual(set(gemm) - ours_alone - of_the_process, set(fields))
        self.assertEqual((fields["us_p50"], fields["device"], fields["commit"]), (3.0, "h200", "abc"))
        self.assertEqual((fields["peer"], fields["peer_us_p50"], fields["ratio"]), ("quick 2", 6.0, 2.0))
        self.assertEqual([peer["peer"] for peer in fields["peers"]], ["quick 2", "slow 1"])
        self.assertEqual(fields["absent"], {"gone": "ModuleNotFoundError: no gone"})
        self.assertAlmostEqual(fields["tflops"], self.case.flops / 3.0 * 1e-6, places=3)
        self.assertAlmostEqual(fields["roofline_fraction"], self.case.roof_us / 3.0, places=3)

    def test_a_wrong_result_is_not_timed_and_says_why(self):
        fields = json.loads(Measurement(self.case, [], [], {"torch": "disagrees: d"}, False, "torch disagrees: d").json_line())
        self.assertEqual((fields["pass"], fields["reason"], fields["us_p50"]), (False, "torch disagrees: d", None))
        self.assertIn("torch: disagrees", fields["no_peer"])


class Peers(unittest.TestCase):
    def test_names_are_unique_and_all_kinds_are_there(self):
        names = [peer.name for peer in adapters.ALL]
        self.assertEqual(len(names), len(set(names)))
        for wanted in ("torch", "Inductor", "SDPA flash", "SDPA cuDNN", "FlashAttention-3", "FlashInfer", "DeepGEMM",
                       "TileLang", "quack", "Liger"):
            self.assertTrue(any(name.startswith(wanted) for name in names), wanted)

    def test_one_that_is_not_installed_says_so(self):
        class Missing(Peer):
            name, modules = "missing", ("json", "no_such_package_at_all")

        self.assertIn("No module named 'no_such_package_at_all'", Missing().available())

        class Present(Peer):
            name, modules = "present", ("json",)

        self.assertIsNone(Present().available())
        for peer in adapters.ALL:  # each can be asked, whatever is installed
            reason = peer.available()
            self.assertTrue(reason is None or reason, peer.name)

    def test_what_one_cannot_compute_is_refused_with_a_reason(self):
        case = listed("rms_norm", "--case", "T=4 H=64")[0]
        with self.assertRaisesRegex(Refused, "does not have this operator"):
            next(peer for peer in adapters.ALL if peer.name == "DeepGEMM").prepare(case, {})
        prefill = "Tq=8 Tk=16 Hq=2 Hkv=1 D=64"
        need_plain_attention(listed("attention_prefill", "--case", prefill)[0])
        for words, reason in (("causal=1", "starts at the first key"), ("window_left=3", "window"), ("lse=1", "log-sum-exp"),
                              ("sink=1", "sink")):
            with self.assertRaisesRegex(Refused, reason):
                need_plain_attention(listed("attention_prefill", "--case", f"{prefill} {words}")[0])

    def test_methods_are_named_after_operators(self):
        ops = {json.loads(line)["op"] for line in subprocess.run(
            [ROOFTILE, "ops", "--json", "-"], check=True, capture_output=True, text=True).stdout.splitlines()}
        other = {"available", "version", "title", "prepare", "call", "name", "modules", "package"}
        for peer in adapters.ALL:
            methods = {name for name in vars(type(peer)) if not name.startswith("_") and name not in other}
            self.assertLessEqual(methods, ops, peer.name)


class Provenance(unittest.TestCase):
    def test_names(self):
        self.assertEqual(provenance.short_device_name("NVIDIA H200"), "h200")
        self.assertEqual(provenance.commit_of("0.1.0 (499b54ad77cf)"), "499b54ad77cf")

    def test_no_device_is_no_error(self):
        conditions = provenance.conditions()
        self.assertTrue(conditions is None or math.isfinite(conditions["sm_mhz"]))


if __name__ == "__main__":
    ROOFTILE = sys.argv.pop(1)
    unittest.main()
