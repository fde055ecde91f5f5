"""The notice about kernels that no GPU has run since they changed."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import unverified

HERE = pathlib.Path(__file__).resolve().parent


def run(date, kernels, operators=0, nccl=0):
    return {"date": date, "gpu": "NVIDIA Test", "kernels": kernels,
            "steps": {"operators": {"exit": operators}, "nccl": {"exit": nccl}}}


class Notices(unittest.TestCase):
    now = {"src/ops/a.cu": "1", "src/comm/nccl.cpp": "2"}

    def test_without_results_it_is_one_line(self):
        self.assertEqual(unverified.notices(self.now, []),
                         ["never verified on a GPU: 2 files of kernels and NCCL"])

    def test_says_nothing_of_what_has_run_as_it_is_even_long_ago(self):
        results = [run("2026-01-01", self.now), run("2026-02-02", {**self.now, "src/ops/a.cu": "0"})]
        self.assertEqual(unverified.notices(self.now, results), [])

    def test_names_what_has_changed_and_what_is_new(self):
        results = [run("2026-02-02", {"src/ops/a.cu": "0"}), run("2026-01-01", {"src/ops/a.cu": "00"})]
        self.assertEqual(unverified.notices(self.now, results),
                         ["changed since a GPU has run it (NVIDIA Test, 2026-02-02): src/ops/a.cu",
                          "never verified on a GPU: src/comm/nccl.cpp"])

    def test_what_failed_there_verifies_nothing(self):
        self.assertEqual(unverified.notices(self.now, [run("2026-01-01", self.now, operators=1, nccl=77)]),
                         unverified.notices(self.now, []))
        self.assertEqual(unverified.notices(self.now, [run("2026-01-01", self.now, operators=1)]),
                         ["never verified on a GPU: src/ops/a.cu"])

    def test_hashes_are_gits(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src" / "ops").mkdir(parents=True)
            (root / "src" / "ops" / "a.cu").write_bytes(b"hello\n")
            (root / "src" / "ops" / "a.cpp").write_bytes(b"of the CPU")
            self.assertEqual(unverified.kernels(root), {"src/ops/a.cu": "ce013625030ba8dba906f756967f9e9ca394464a"})

    def test_a_run_of_these_sources_silences_it(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("2026-01-01", unverified.kernels())
            (pathlib.Path(folder) / "test.json").write_text(json.dumps(result))
            said = subprocess.run([sys.executable, HERE / "unverified.py", folder], capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
