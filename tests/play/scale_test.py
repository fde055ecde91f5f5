"""scale_test.py PAGE PRINT_PLAY NANOFSDP: the scene at scale, held against `nanofsdp plan --json`."""

import json
import pathlib
import subprocess
import sys
import time
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from in_browser import PAGE, Page

PRINT_PLAY, NANOFSDP = (pathlib.Path(p).resolve() for p in sys.argv[2:4])

# As the form says it. Every setting at least once, every strategy, the largest of everything.
CONFIGURATIONS = [
    {}, {"gpus": "4096"}, {"gpus": "64"}, {"model": "llama-3-405b", "gpus": "4096"},
    {"model": "llama-3-8b", "recomputation": "none"}, {"model": "llama-2-70b", "gpu_rows": 4},
    {"model": "gpt2-xl", "gpus": "8", "row_tokens": "1024", "gpu_rows": 16},
    {"model": "gpt2", "gpus": "64", "row_tokens": "512", "recomputation": "selective"},
    {"sharding": "no_shard"}, {"sharding": "shard_optimizer"}, {"sharding": "shard_gradients"},
    {"sharding": "shard_grad_op", "machine": "h200"}, {"sharding": "hybrid_shard", "gpu_micro": 4},
    {"machine": "a100-80", "network": "3"}, {"reduced": "bfloat16", "recomputation": "selective"},
]
CLOSE = 1e-12


class AtScale(Page):
    def plans(self, counter="plans"):
        return int(self.run_script(f"return document.body.dataset.{counter}") or 0)

    def open_at(self, settings=""):
        self.open(settings=f"#scene=scale{settings}")
        self.wait_until(lambda: self.plans("sweeps") > 0, seconds=120)

    def change(self, name, value, counter="plans"):
        before = self.plans(counter)
        Select(self.browser.find_element(By.ID, f"set-{name}")).select_by_value(value)
        self.wait_until(lambda: self.plans(counter) > before)

    def arguments(self, settings):
        return self.run_script(f"return play.arguments({json.dumps(settings)})")

    def assert_same(self, here, there, where=""):
        """But for the last digits of times, which native code may round once where a browser does twice."""
        if isinstance(there, dict):
            self.assertEqual(here.keys(), there.keys(), where)
            for name in there:
                self.assert_same(here[name], there[name], f"{where}/{name}")
        elif isinstance(there, list):
            self.assertEqual(len(here), len(there), where)
            for i, (a, b) in enumerate(zip(here, there)):
                self.assert_same(a, b, f"{where}/{i}")
        elif isinstance(there, float):
            self.assertAlmostEqual(here, there, delta=CLOSE * abs(there) + 1e-15, msg=where)
        else:
            self.assertEqual(here, there, where)

    def test_is_the_command(self):
        self.open_at()
        requests = [{"do": "plan", "args": self.arguments(c)} for c in CONFIGURATIONS]
        native = subprocess.run([PRINT_PLAY], input="\n".join(map(json.dumps, requests)),
                                capture_output=True, text=True, check=True).stdout.splitlines()
        for request, line in zip(requests, native, strict=True):
            with self.subTest(" ".join(request["args"])):
                here, there = self.ask(request), json.loads(line)
                self.assertNotIn("error", here)
                said = subprocess.run([NANOFSDP, "plan", "--json=True", *request["args"]],
                                      capture_output=True, text=True, check=True).stdout
                self.assertEqual(there["plan"], json.loads(said))
                self.assertGreater(len(there["spans"]), 20)
                self.assert_same(here, there)

    def test_shows_the_first_picture_soon(self):
        begun = time.monotonic()
        self.browser.get("about:blank")
        self.browser.get(f"{PAGE.as_uri()}#scene=scale")
        self.wait_until(lambda: self.plans() > 0)
        print(f"first picture of the scene at scale after {time.monotonic() - begun:.2f} s")
        self.assertGreater(len(self.browser.find_elements(By.CSS_SELECTOR, "#scale-lanes .span")), 500)

    def test_says_in_words_what_does_not_fit_and_what_would(self):
        self.open_at()
        self.assertIn("It fits", self.text("scale-verdict"))
        self.change("recomputation", "none")
        self.assertIn("OUT OF MEMORY", self.text("scale-verdict"))
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, "#scale-memory .beyond")), 1)
        self.wait_until(lambda: "--recompute=selective would take" in self.text("scale-advice"))
        self.change("recomputation", "block")
        self.assertEqual(self.text("scale-advice"), "")

    def test_marks_where_communication_takes_over(self):
        self.open_at("&model=llama-3-8b")
        self.change("network", "3", "sweeps")
        self.assertRegex(self.text("scale-crossing"), "Communication-bound (from|everywhere)")
        before = self.plans("sweeps")
        Select(self.browser.find_element(By.ID, "scale-over")).select_by_value("tokens")
        self.wait_until(lambda: self.plans("sweeps") > before)
        self.assertIn("tokens a GPU", self.text("scale-crossing"))
        crossings = self.browser.find_elements(By.CSS_SELECTOR, "#scale-curve .crossing")
        self.assertEqual(len(crossings), 1)

    def test_a_link_carries_the_settings(self):
        self.open_at("&gpus=4096&sharding=hybrid_shard")
        self.assertIn("--ranks=4096", self.text("scale-command"))
        self.change("machine", "h200")
        self.assertIn("machine=h200", self.browser.current_url)
        self.assertIn("--strategy=hybrid_shard --recompute=block", self.text("scale-command"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
