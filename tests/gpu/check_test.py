"""check.sh, where every program that it calls is a stand-in (stand_in.sh) that answers at once."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = "timeout nvidia-smi nvcc c++ cmake ninja python3 compute-sanitizer".split()
BUILD = ["probe", "build", "smoke", "operators"]
STEPS = ["cpu", "ours_1", "local_2", "local_4", "parity", "speed_ours", "memcheck", "racecheck", "race_attention", "memcheck_train",
         "nccl", "ours_2", "killed_rank", "parity", "ours_4", "parity", "overlap", "synccheck"]
PYTORCH = ["pytorch", "torch_1", "fsdp2_1", "speed_eager", "fsdp2_2", "speed_compile"]


def processes_in(folder):
    """The command lines of the processes that were started with this folder in their environment."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(folder) in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
        except OSError:
            pass  # it has ended, or is somebody else's
    return found


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.out = self.root / "out"
        for name in ("gpu", "parity"):
            shutil.copytree(HERE.parent / name, self.root / "tests" / name)
        stand_in = self.root / "tests" / "gpu" / "stand_in.sh"
        stand_in.chmod(0o755)
        (self.root / "bin").mkdir()
        for program in PROGRAMS:
            (self.root / "bin" / program).symlink_to(stand_in)

    def start(self, **behaviour):
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "OUT": str(self.out),
                       "PYTHON": sys.executable, "TIMEOUT": shutil.which("timeout"),
                       "ABSENT": "", "IMPORT": "probe", "LIMIT": "1", **behaviour}
        for variable in ("DEVICE", "MODEL", "MINUTES"):
            environment.pop(variable, None)
        check = subprocess.Popen(["bash", self.root / "tests" / "gpu" / "check.sh"], env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(check.communicate)
        self.addCleanup(check.terminate)
        return check

    def check(self, **behaviour):
        """(exit code, what it printed, {step: exit code}); and whatever happened, this is so:"""
        check = self.start(**behaviour)
        said, _ = check.communicate(timeout=100)
        self.assertEqual(processes_in(self.root), [])
        self.assertLessEqual(sum(len(files) for _, _, files in os.walk(self.out)), 4)
        rows = [line.split("\t") for line in said.splitlines() if line.count("\t") == 2]
        self.ran = [name for name, _, _ in rows]
        logs = (self.out / "logs.txt").read_text()
        for name, code, _ in rows:
            self.assertIn(f"===== {name}: exit code {code} after", logs)
        return check.returncode, said, {name: int(code) for name, code, _ in rows}

    def test_without_a_gpu_it_ends_and_says_so(self):
        code, said, steps = self.check(ABSENT="gpu")
        self.assertEqual((code, steps), (1, {"probe": 6}))
        self.assertIn("    No devices were found\ngpu-check: no GPU answers.", said)

    def test_without_pytorch_only_its_own_rows_are_missing(self):
        code, said, steps = self.check(ABSENT="pytorch")
        self.assertEqual(code, 1)
        self.assertEqual(sorted(self.ran), sorted(BUILD + STEPS + ["pytorch"]))
        self.assertEqual({name for name in steps if steps[name] != 0}, {"pytorch"})
        self.assertIn("No module named 'torch'", said)
        self.assertTrue(said.startswith("note: no .gpu-deps here"))

    def test_an_import_of_pytorch_that_takes_long_delays_nothing_else(self):
        (self.root / ".gpu-deps").mkdir()
        code, said, _ = self.check(IMPORT="operators")
        self.assertEqual(code, 0)
        self.assertEqual(self.ran[:4], BUILD)
        self.assertLess(self.ran.index("pytorch"), self.ran.index("torch_1"))
        self.assertEqual(sorted(self.ran), sorted(BUILD + STEPS + PYTORCH))
        self.assertIn("| ours_4 | 50 | 0.0e+00 | 0.0e+00 | never |", said)
        self.assertNotIn(".gpu-deps", said)

    def test_one_step_fails_one_hangs_and_the_rest_runs(self):
        code, said, steps = self.check(FAILS="operators", HANGS="nccl")
        self.assertEqual(code, 1)
        self.assertEqual(sorted(self.ran), sorted(BUILD + STEPS + PYTORCH))
        self.assertEqual({name: steps[name] for name in steps if steps[name] != 0}, {"operators": 3, "nccl": 137})
        last = "".join(f"    line {i} of 30\n" for i in range(6, 31))
        self.assertRegex(said, rf"\noperators\t3\t\d+\n{last}\w")
        self.assertRegex(said, r"\nnccl\t137\t\d+\n    this hangs\n")
        self.assertIn("line 1 of 30\n", (self.out / "logs.txt").read_text())
        self.assertIn("| nccl | out of time |", said)

    def test_a_check_that_is_ended_midway_ends_all_it_started_and_leaves_its_logs(self):
        for hangs, imported in (("smoke", "never"), ("ours_1", "probe")):
            with self.subTest(hangs):
                check = self.start(HANGS=hangs, LIMIT="100", IMPORT=imported)
                running = self.out / "running" / hangs
                while not running.exists() or "this hangs" not in running.read_text():
                    self.assertIsNone(check.poll())
                    time.sleep(0.05)
                self.assertLessEqual(sum(len(files) for _, _, files in os.walk(self.out)), 8)
                check.send_signal(signal.SIGTERM)
                check.communicate(timeout=20)
                self.assertEqual(check.returncode, 143)
                self.assertEqual(processes_in(self.root), [])
                logs = "".join(p.read_text() for p in self.out.rglob("*") if p.is_file())
                for words in ("===== probe: exit code 0", "===== build: exit code 0", "this hangs"):
                    self.assertIn(words, logs)


if __name__ == "__main__":
    unittest.main()
