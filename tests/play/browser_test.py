"""browser_test.py PAGE PRINT_PLAY: the page in headless Chromium, and its engine held against the native one."""

import functools
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from in_browser import PAGE, Page

PRINT_PLAY = pathlib.Path(sys.argv[2]).resolve()

# Every setting of the page at least once, and every strategy.
CONFIGURATIONS = [
    {}, {"ranks": 1}, {"ranks": 2}, {"ranks": 3, "layout": "per_parameter"}, {"ranks": 8},
    {"n_layer": 12, "n_embd": 16}, {"n_embd": 128, "n_layer": 1}, {"block_size": 32},
    {"strategy": "no_shard"}, {"strategy": "shard_optimizer"}, {"strategy": "shard_gradients"},
    {"strategy": "shard_grad_op"}, {"strategy": "hybrid_shard", "shard_size": 2},
    {"strategy": "hybrid_shard_optimizer", "shard_size": 2},
    {"strategy": "hybrid_shard", "shard_size": 2, "layout": "per_parameter", "recompute": True},
    {"gradient_accumulation_steps": 8}, {"gradient_accumulation_steps": 8, "no_sync": True},
    {"param_dtype": "bfloat16"}, {"reduce_dtype": "bfloat16", "recompute": True},
    {"backward_prefetch": "none", "forward_prefetch": 0, "link": 1e7},
    {"backward_prefetch": "post", "forward_prefetch": 2, "pool": False, "arithmetic": 1e11},
]
TRAINED = ["no_shard", "shard_optimizer", "shard_gradients", "shard_grad_op", "full_shard"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Scenes(Page):
    def test_lessons_open_it_at_their_own_settings(self):
        lessons = pathlib.Path(__file__).resolve().parents[2] / "lessons"
        links = [link for readme in sorted(lessons.glob("[0-9]*/README.md"))
                 for link in re.findall(r"index\.html(#[^`]+)`", readme.read_text())]
        self.assertGreaterEqual(len(links), 8)
        for link in links:
            self.open(settings=link)
            for name, value in urllib.parse.parse_qsl(link[1:]):
                place = f"tab-{value}" if name == "scene" else f"set-{name}"
                expected = ("aria-selected", "true") if name == "scene" else ("value", value)
                control = self.browser.find_element(By.ID, place)
                self.assertEqual(control.get_attribute(expected[0]), expected[1], link)

    def test_opens_from_a_file(self):
        begun = time.monotonic()
        self.open()
        print(f"first picture and first loss after {time.monotonic() - begun:.2f} s")
        self.assertIn("201,536 parameters in 5 units", self.text("state"))
        self.assertIn("3.9154", self.text("figures"))
        for picture in ["#bars .box", "#lanes .span", "#curve .area", "#events li"]:
            self.assertGreater(len(self.browser.find_elements(By.CSS_SELECTOR, picture)), 5, picture)

    def test_opens_from_a_static_server(self):
        handler = functools.partial(Quiet, directory=PAGE.parent)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.open(f"http://127.0.0.1:{server.server_port}/{PAGE.name}")
            server.shutdown()

    def test_plays_and_steps_by_buttons_and_keys(self):
        self.open()
        for name, key, by in [("step", Keys.ARROW_RIGHT, 1), ("back", Keys.ARROW_LEFT, -1)]:
            before = self.index()
            self.click(name)
            self.assertEqual(self.index(), before + by)
        body = self.browser.find_element(By.TAG_NAME, "body")
        self.run_script("document.activeElement.blur()")
        body.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.assertEqual(self.index(), 1)
        self.assertIn("event 2 of", self.text("place"))
        body.send_keys(Keys.END)
        self.assertEqual(self.index(), self.run_script("return play.player.rank.events.length") - 1)
        body.send_keys(Keys.HOME, "3")
        self.assertIn("rank 2", self.text("told"))
        body.send_keys("++")
        self.assertEqual(self.text("speed-text"), "4 ×")
        body.send_keys(" ")
        self.wait_until(lambda: self.index() > 5)
        self.assertEqual(self.text("play"), "Pause")
        self.click("play")
        at = self.run_script("return play.player.at")
        time.sleep(0.2)
        self.assertEqual(self.run_script("return play.player.at"), at)
        self.assertEqual(self.text("play"), "Play")

    def test_quotes_the_source(self):
        self.open()
        self.browser.find_element(By.CSS_SELECTOR, "#events .source").click()
        self.assertIn("void Unit::gather(", self.text("excerpt"))

    def test_each_setting_does_what_it_says(self):
        self.open()
        first = self.run_script("return play.film()")
        self.assertEqual(len(self.change("ranks", 3)["ranks"]), 3)
        self.change("ranks", 4)
        self.assertEqual(len(self.change("n_layer", 2)["units"]), 3)
        self.assertLess(self.change("n_embd", 32)["most"], first["most"])
        self.open()
        holds = lambda film, c: max(s["memory"][c] for s in film["ranks"][0]["samples"])
        self.assertGreater(holds(self.change("rows", 4), 5), holds(first, 5))
        self.change("rows", 2)
        self.assertLess(holds(self.change("recompute", "on"), 5), holds(first, 5))
        self.change("recompute", "off")
        self.assertEqual(holds(self.change("strategy", "no_shard"), 0), 4 * holds(first, 0))
        self.change("strategy", "full_shard")
        reserved = lambda film: film["ranks"][0]["ledger"][3][0]  # for whole parameters
        self.assertGreater(reserved(self.change("pool", "one a unit")), reserved(first))
        self.change("pool", "shared")
        step = lambda film: film["ranks"][0]["seconds"]
        self.assertGreater(step(self.change("backward_prefetch", "none")), step(first))
        self.change("backward_prefetch", "pre")
        self.assertGreater(step(self.change("forward_prefetch", 0)), step(first))
        self.change("forward_prefetch", 1)
        self.assertLess(step(self.change("link", 11)), step(first))
        self.change("link", 8.7)
        self.assertLess(step(self.change("arithmetic", 11)), step(first))
        self.change("arithmetic", 10)
        sent = lambda film: film["ranks"][0]["traffic"]["bytes_sent"]
        self.assertLess(sent(self.change("param_dtype", "bfloat16")), sent(first))
        self.change("param_dtype", "float32")
        self.assertLess(sent(self.change("reduce_dtype", "bfloat16")), sent(first))
        self.change("reduce_dtype", "float32")
        self.assertNotEqual(self.change("layout", "per_parameter")["most"], first["most"])
        self.change("layout", "flat")
        twice = self.change("micro", 2)
        self.assertGreater(step(twice), 1.5 * step(first))
        self.assertLess(sent(self.change("no_sync", "last")), sent(twice))
        self.assertIn("no_sync=last", self.browser.current_url)

    def test_trains_and_compares_strategies(self):
        self.open(settings="#scene=train&ranks=2&n_layer=2&n_embd=32")
        self.click("train-go")
        steps = lambda: re.search(r"step (\d+)", self.text("train-numbers"))
        self.wait_until(lambda: steps() and int(steps()[1]) >= 10)
        self.assertGreater(len(self.browser.find_elements(By.CSS_SELECTOR, "#losses .loss")), 0)
        self.click("compare")  # while it trains
        self.wait_until(lambda: "Equal, to the last bit" in self.text("verdict"))
        self.assertEqual(len(self.browser.find_elements(By.CSS_SELECTOR, "#hashes tr")), 5)
        drawn = self.run_script("return document.getElementById('losses').getAttribute('viewBox')")
        self.run_script("document.querySelector('main').style.width = '500px'")
        self.wait_until(lambda: drawn != self.run_script(
            "return document.getElementById('losses').getAttribute('viewBox')"))
        self.assertGreater(len(self.browser.find_elements(By.CSS_SELECTOR, "#losses .loss")), 0)

    def test_nothing_is_cut_at_any_width(self):
        for scene in ["step", "train", "follow", "break", "scale"]:
            self.assert_nothing_is_cut(f"#ranks=8&n_layer=12&scene={scene}")

    def test_goes_event_by_event_where_motion_is_not_wanted(self):
        self.emulate(prefers_reduced_motion="reduce")
        self.open()
        self.click("play")
        seen = set()
        self.wait_until(lambda: self.index() > 2 or seen.add(self.run_script(
            "const { at, index, rank } = play.player; return Math.abs(at - rank.eventTimes[index]) < 1e-8")))
        self.assertEqual(seen, {True})
        self.emulate()

    def test_answers_what_a_gather_the_peak_and_prefetch_are(self):
        self.open()
        rank = self.run_script("return play.film()")["ranks"][0]
        self.assertIn(f"{rank['traffic']['all_gathers']} gathers bring rank 0", self.text("answer-gather"))
        self.assertIn(f"{rank['totals'][rank['peak']] / 1e6:.2f} MB", self.text("answer-peak"))
        self.assertIn("in backward of h.", self.text("answer-peak"))
        before = rank["exposed"][1]
        self.assertIn(f"waits for {before * 1e6:.0f} µs", self.text("answer-prefetch"))
        self.click("no-prefetch")
        self.wait_until(lambda: "Prefetch is off" in self.text("answer-prefetch"))
        self.assertGreater(self.run_script("return play.film().ranks[0].exposed[1]"), 1.5 * before)
        self.assertEqual(self.browser.find_element(By.ID, "set-backward_prefetch").get_attribute("value"), "none")
        self.click("no-prefetch")
        self.wait_until(lambda: f"waits for {before * 1e6:.0f} µs" in self.text("answer-prefetch"))

    def test_the_keyboard_reaches_and_uses_every_control(self):
        controls = ("[...document.querySelectorAll('button, input, select, summary, a[href], [tabindex]')]"
                    ".filter((e) => !e.disabled && e.getClientRects().length)")
        for scene in ["step", "train", "follow", "break", "scale"]:
            self.open(settings=f"#ranks=2&n_layer=1&scene={scene}")
            self.wait_until(lambda: scene != "scale" or self.run_script("return document.body.dataset.sweeps"))
            self.wait_until(lambda: scene != "follow" or "AdamW has updated" in self.text("life"))
            count = self.run_script("window.seen = new Set(); document.addEventListener('focusin', "
                                    f"({{ target }}) => seen.add(target)); return {controls}.length")
            self.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB * (count + 2))
            missed = self.run_script(f"return {controls}.filter((e) => !seen.has(e)).map((e) => e.outerHTML)")
            self.assertEqual(missed, [], scene)
        self.open()
        self.browser.find_element(By.ID, "tab-break").send_keys(Keys.ENTER)
        self.assertTrue(self.browser.find_element(By.ID, "scene-break").is_displayed())
        self.browser.find_element(By.ID, "tab-step").send_keys(Keys.ENTER)
        before = self.films()
        self.browser.find_element(By.ID, "set-ranks").send_keys(Keys.ARROW_LEFT)
        self.wait_until(lambda: self.films() > before)
        self.assertEqual(len(self.run_script("return play.film()")["ranks"]), 3)
        self.browser.find_element(By.CSS_SELECTOR, "#events .source").send_keys(Keys.ENTER)
        dialog = self.browser.find_element(By.ID, "excerpt")
        self.assertTrue(dialog.is_displayed())
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertFalse(dialog.is_displayed())

    def test_follows_one_number(self):
        self.open(settings="#scene=follow&ranks=2")
        rows = lambda: self.browser.find_elements(By.CSS_SELECTOR, "#life tr")
        self.wait_until(lambda: len(rows()) > 8)
        self.assertIn("AdamW has updated the shard", rows()[-1].text)
        for row in rows()[2:-2]:  # what takes the copy away is about its own unit, too
            self.assertIn("h.1", row.text)
        before = self.text("life")
        Select(self.browser.find_element(By.ID, "follow-parameter")).select_by_index(0)
        self.wait_until(lambda: self.text("life") != before)

    def test_each_bug_changes_what_it_says(self):
        self.open(settings="#scene=break")
        declared = self.run_script("return play.switches")
        self.assertGreaterEqual(len(declared), 8)
        for bug, button in zip(declared, self.browser.find_elements(By.CSS_SELECTOR, "#bugs button"),
                               strict=True):
            button.click()
            self.click("break-go")
            self.wait_until(lambda: bug["why"] in self.text("bug-why"))
            changed = [row.get_attribute("data-key") for row in
                       self.browser.find_elements(By.CSS_SELECTOR, "#numbers .changed")]
            with self.subTest(bug=bug["name"]):
                self.assertEqual(changed, bug["changes"])

    def test_is_the_native_engine(self):
        self.open()
        requests = [{"do": "film", "settings": c} for c in CONFIGURATIONS]
        native = subprocess.run([PRINT_PLAY], input="\n".join(map(json.dumps, requests)),
                                capture_output=True, text=True, check=True).stdout.splitlines()
        worst = 0
        for request, line in zip(requests, native, strict=True):
            here, there = self.ask(request), json.loads(line)
            with self.subTest(**request["settings"]):
                self.assertNotIn("error", there)
                for a, b in zip(here.pop("losses"), there.pop("losses"), strict=True):
                    worst = max(worst, abs(a - b))
                    self.assertAlmostEqual(a, b, delta=1e-6)
                self.assertAlmostEqual(here.pop("grad_norm"), there.pop("grad_norm"), delta=1e-5)
                self.assertEqual(len(set(here.pop("weights"))), 1)
                self.assertEqual(len(set(there.pop("weights"))), 1)
                # Memory at every moment, events, spans, times, traffic, the ledger.
                self.assertTrue(here == there, "not the native film")
        print(f"{len(requests)} configurations: losses differ by {worst:.1e} at most")

    def test_weights_are_equal_over_strategies(self):
        self.open()
        found = set()
        for strategy in TRAINED:
            self.ask({"do": "train", "settings": {"strategy": strategy}})
            self.ask({"do": "steps", "n": 5})
            found.update(self.ask({"do": "weights"})["weights"])
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
