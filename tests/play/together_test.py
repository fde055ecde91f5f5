"""together_test.py PAGE: scenes, settings and links that change while something is under way."""

import sys
import time
import unittest

from in_browser import Page

BUG = "The sum is rank 0 alone"


class Together(Page):
    def losses(self):
        """What "Break it" says of the loss of step 30: intact, broken."""
        return self.run_script("return [...document.querySelectorAll('#numbers [data-key=loss30] .number')]"
                               ".map((cell) => cell.textContent)")

    def break_it(self):
        self.click("tab-break")
        self.run_script(f"[...document.querySelectorAll('#bugs button')].find((b) => b.textContent === '{BUG}').click()")
        self.click("break-go")

    def step(self):
        words = self.text("train-numbers")
        return int(words.split("step ")[1].split(",")[0].replace(",", "")) if "step " in words else 0

    def begin_training(self):
        self.click("tab-train")
        self.click("train-go")
        self.wait_until(lambda: self.step() > 0)

    def test_a_bug_and_a_training_have_engines_of_their_own(self):
        self.open(settings="#scene=break")
        self.break_it()
        self.wait_until(lambda: len(self.losses()) == 2 and all(self.losses()))
        alone = self.losses()
        self.open(settings="#ranks=2&n_layer=2&n_embd=32")
        self.begin_training()
        self.break_it()
        self.wait_until(lambda: len(self.losses()) == 2 and all(self.losses()))
        self.assertEqual(self.losses(), alone)
        self.click("tab-follow")
        self.wait_until(lambda: "AdamW has updated" in self.text("life"))
        self.click("tab-train")
        before = self.step()
        self.wait_until(lambda: self.step() > before)  # it has gone on, and goes on

    def test_settings_that_change_leave_a_comparison_alone(self):
        self.open(settings="#scene=train&ranks=2&n_layer=2&n_embd=32")
        self.click("compare")
        self.change("ranks", 3)
        self.assertFalse(self.browser.find_element("id", "compare").is_enabled())
        self.wait_until(lambda: "Equal, to the last bit" in self.text("verdict"))

    def test_from_the_beginning_at_any_moment(self):
        self.open(settings="#scene=train&ranks=2&n_layer=2&n_embd=32")
        self.click("train-go")
        self.click("train-again")
        self.assertEqual(self.text("train-go"), "Train")
        self.click("train-go")
        self.assertEqual(self.text("train-go"), "Pause")
        self.wait_until(lambda: self.step() >= 10)
        self.click("train-again")
        self.assertEqual([self.text("train-go"), self.text("train-numbers")],
                         ["Train", "The training has not begun."])
        time.sleep(0.3)
        self.assertEqual(self.text("train-numbers"), "The training has not begun.")

    def test_a_link_is_followed_in_a_page_that_is_open(self):
        self.open()
        for link, strategy, scene in [("#strategy=no_shard", "no_shard", "step"), ("#scene=train", "full_shard", "train")]:
            before = self.films()
            self.run_script(f"location.hash = '{link}'")
            self.wait_until(lambda: self.films() > before)
            self.assertEqual(self.browser.find_element("id", "set-strategy").get_attribute("value"), strategy)
            self.assertEqual(self.browser.find_element("id", f"tab-{scene}").get_attribute("aria-selected"), "true")

    def test_a_link_between_the_steps_of_a_slider_means_the_nearest(self):
        for link, name, value in [("ranks=2.5", "ranks", "3"), ("n_embd=100", "n_embd", "96"), ("rows=1.4", "rows", "1"),
                                  ("ranks=", "ranks", "4"), ("ranks=-7", "ranks", "1"), ("link=8.72", "link", "8.7")]:
            self.open(settings=f"#{link}")
            self.assertEqual(self.browser.find_element("id", f"set-{name}").get_attribute("value"), value, link)

    def test_a_setting_is_filmed_whatever_scene_comes_next(self):
        self.open()
        before = self.films()
        self.run_script("const s = document.getElementById('set-strategy'); s.value = 'no_shard'; s.onchange();"
                        "document.getElementById('tab-scale').click()")
        self.wait_until(lambda: self.films() > before)
        self.click("tab-step")
        self.assertIn("each rank has all parameters already", self.text("answer-gather"))

    def test_what_it_says_is_so_under_every_strategy(self):
        for strategy, stay, by in [("no_shard", "whole parameters stay", "4 ranks alike"),
                                   ("shard_optimizer", "whole parameters stay", "its rank alone"),
                                   ("full_shard", "only the shards are there", "its rank alone")]:
            self.open(settings=f"#scene=follow&n_layer=2&strategy={strategy}")
            self.wait_until(lambda: by in self.text("life"))
            self.assertIn(stay, self.text("life"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
