"""browser_test.py SITE: the built site in headless Chromium, from files, on a phone and on a desk."""

import pathlib
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SITE = pathlib.Path(sys.argv[1]).resolve()
LESSON = "lessons/08_shard_and_pad/index.html"
# What reaches beyond the window, and what reaches beyond its box where nothing scrolls.
CUT = """
const width = document.documentElement.clientWidth;
const boxed = (e) => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' || boxed(e.parentElement));
return [...document.querySelectorAll('main *')]
  .filter((e) => (e.getBoundingClientRect().right > width + 1 && !boxed(e)) ||
                 (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'hidden'))
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
"""


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service("chromedriver"), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def tearDown(self):
        self.assertEqual([m for m in self.browser.get_log("browser") if m["level"] == "SEVERE"], [])

    def open(self, page, width):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        self.browser.get((SITE / page).as_uri())

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys):
        self.browser.switch_to.active_element.send_keys(*keys)

    def test_nothing_is_cut(self):
        pages = [*(SITE / "lessons").rglob("*.html"), SITE / "index.html", SITE / "api/files.html",
                 SITE / "api/layout_8h.html", SITE / "api/layout_8h_source.html"]
        self.assertGreater(len(pages), 35)
        for page in pages:
            for width in (360, 1440):
                self.open(page, width)
                self.assertEqual(self.browser.execute_script(CUT), [], f"{page} at {width}")

    def test_a_word_opens_in_place_by_keyboard(self):
        for width in (360, 1440):
            self.open(LESSON, width)
            link = self.find("a.word[href$='#shard']")
            self.browser.execute_script("arguments[0].focus()", link)
            self.press(Keys.ENTER)
            note = self.find(".meaning")
            self.assertIn("one rank owns", note.text)
            self.assertLessEqual(note.rect["x"] + note.rect["width"], width)
            self.press(Keys.ESCAPE)
            WebDriverWait(self.browser, 10).until(lambda _: not self.browser.find_elements(By.CLASS_NAME, "meaning"))
            self.assertEqual(self.browser.switch_to.active_element, link)
            self.assertTrue(self.browser.current_url.endswith("index.html"))

    def test_contents_are_beside_the_text_or_behind_a_button(self):
        self.open(LESSON, 1440)
        self.assertTrue(self.find("#contents").is_displayed())
        self.open(LESSON, 360)
        self.assertFalse(self.find("#contents").is_displayed())
        self.find("header button").click()
        self.find("#contents a[href='#your-turn']").click()
        self.assertFalse(self.find("#contents").is_displayed())
        self.assertTrue(self.browser.current_url.endswith("#your-turn"))

    def test_search_finds_a_word_a_lesson_and_a_function(self):
        self.open(LESSON, 1440)
        for asked, first in [("reshard", "Glossary: reshard"), ("prefetch stream", None),
                             ("Layout::shard_of", "nanofsdp::fsdp::Layout::shard_of")]:
            field = self.find("#search input")
            field.clear()
            field.send_keys(asked)
            found = lambda _: [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#search li a")]
            titles = WebDriverWait(self.browser, 10).until(found)
            if first:
                self.assertEqual(titles[0], first)
        self.find("#search li a").click()
        self.assertIn("/api/", self.browser.current_url)

    def test_dark_follows_the_system(self):
        grounds = set()
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.open(LESSON, 360)
            grounds.add(self.find("body").value_of_css_property("background-color"))
            self.assertEqual(self.find(".picture").value_of_css_property("background-color"),
                             "rgba(255, 255, 255, 1)")
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
