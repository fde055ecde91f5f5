"""What report.py makes of a folder that check.sh leaves."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import picture
import report
import unverified


def curve(change=1.0, steps=50):
    return [{"iter": i, "loss": (4 - i / 100) * change, "grad_norm": 2.0} for i in range(steps)]


class Picture(unittest.TestCase):
    def test_shows_the_newest_result(self):
        self.assertEqual((picture.RESULTS / "speed.svg").read_text(), picture.svg(picture.newest()))


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        (self.work / "logs").mkdir()
        (self.work / "out").mkdir()
        (self.work / "logs" / "probe").write_text("NVIDIA Test, 580.1, 1 MiB\nLinux\n")
        (self.work / "logs" / "pytorch").write_text("PyTorch 2\n")
        self.steps = {"probe": 0, "operators": 0, "nccl": 0}
        for run in ("cpu", *report.OURS):
            self.write(run, curve())

    def write(self, run, records):
        self.steps[run] = 0
        (self.work / f"{run}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))

    def call(self, function):
        """(exit code, what it printed)"""
        (self.work / "steps.tsv").write_text("".join(f"{n}\t{c}\t1\n" for n, c in self.steps.items()))
        environment = {"device": "cpu", "OUT": str(self.work / "out"), "out": str(self.work / "out")}
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(io.StringIO()) as printed:
            return function(self.work), printed.getvalue()

    def parity_without(self, run, records):
        self.write(run, records)
        return self.call(report.parity)[0]

    def test_curves_that_are_near_pass(self):
        self.assertEqual(self.call(report.parity)[0], 0)

    def test_a_curve_that_is_far_no_number_too_short_or_missing_fails(self):
        self.assertEqual(self.parity_without("ours_2", curve(1.0001)), 1)
        self.assertEqual(self.parity_without("ours_2", curve(steps=49)), 1)
        self.assertEqual(self.parity_without("ours_2", []), 1)
        for key in ("loss", "grad_norm"):
            self.assertEqual(self.parity_without("ours_2", curve()[:-1] + [{**curve()[-1], key: None}]), 1)
        (self.work / "ours_2.jsonl").unlink()
        self.assertEqual(self.call(report.parity)[0], 1)
        self.write("ours_2", curve())
        self.assertEqual(self.parity_without("cpu", []), 1)

    def test_a_curve_counts_as_far_as_it_goes(self):
        for run in ("cpu", "ours_1"):
            self.write(run, curve(steps=250))
        self.assertEqual(self.parity_without("ours_4", curve(steps=60)), 0)
        with (self.work / "ours_4.jsonl").open("a") as file:
            file.write('{"iter": 60, "lo')
        self.assertEqual(self.call(report.parity)[0], 0)
        _, printed = self.call(report.summary)
        self.assertIn("| ours_1 | 250 | 0.0e+00 | 0.0e+00 | never |", printed)
        self.assertIn("| ours_4 | 60 | 0.0e+00 | 0.0e+00 | never |", printed)

    def test_a_step_that_has_not_run_yet_is_not_judged(self):
        del self.steps["ours_4"]
        (self.work / "ours_4.jsonl").unlink()
        self.assertEqual(self.call(report.parity)[0], 0)
        self.steps["ours_4"] = 1
        self.assertEqual(self.call(report.parity)[0], 1)

    def test_of_a_step_that_ran_twice_the_last_time_counts(self):
        self.steps = {"probe": 0, "parity": 0}
        self.call(report.summary)
        with (self.work / "steps.tsv").open("a") as file:
            file.write("parity\t1\t2\n")
        self.assertEqual(report.steps_of(self.work)["parity"], {"exit": 1, "seconds": 2})

    def test_pytorch_is_among_the_facts_if_it_is_there(self):
        self.assertNotIn("\nPyTorch 2\n", self.call(report.summary)[1])
        self.steps["pytorch"] = 0
        self.assertIn("\nPyTorch 2\n", self.call(report.summary)[1])

    def test_pytorchs_curves_are_told_and_not_judged(self):
        self.assertEqual(self.parity_without("fsdp2_2", curve(1.0001)), 0)
        _, printed = self.call(report.summary)
        self.assertIn("| fsdp2_2 | 50 | 1.0e-04 | 0.0e+00 | step 1, loss |", printed)

    def test_one_step_that_did_not_pass_is_the_exit_code_and_a_word(self):
        self.assertEqual(self.call(report.summary)[0], 0)
        for code, words in ((124, "out of time"), (77, "skipped"), (3, "failed, 3")):
            self.steps["nccl"] = code
            ended, printed = self.call(report.summary)
            self.assertEqual(ended, 1)
            self.assertIn(f"| nccl | {words} | 1 |", printed)

    def test_speeds_stand_beside_the_last(self):
        for who, ms in (("ours", 50.0), ("eager", 200.0), ("compile", 100.0)):
            (self.work / f"speed_{who}.json").write_text(json.dumps(
                {"words": who, "ms": ms, "fastest": ms, "slowest": ms, "tokens_per_s": 1e6, "tflops": 1.0, "model": "1,1,1,1,1",
                 "peak_bytes": 10**9, "first_loss": 11.0, "last_loss": 10.0,
                 **({"limits": {"product_tflops": 790, "copy_gb_per_s": 4300}} if who == "eager" else {})}))
        _, printed = self.call(report.summary)
        for row in ("| ours | 50.0 (50.0 to 50.0) | 1,000,000 | 1.0 | 2.00 | 1.0 |", "| eager | 200.0 (200.0 to 200.0) | 1,000,000 | 1.0 | 0.50 |"):
            self.assertIn(row, printed)
        self.assertIn("at 790 TFLOP/s and copies 4,300 GB/s", printed)

    def test_the_notice_reads_what_is_written(self):
        self.call(report.summary)
        results = unverified.read(self.work / "out")
        self.assertEqual(len(results), 1)
        self.assertEqual(unverified.notices(unverified.kernels(), results), [])
        self.assertEqual(sorted(f.name.split("_")[0] for f in (self.work / "out").iterdir()), ["nvidia", "nvidia"])


if __name__ == "__main__":
    unittest.main()
