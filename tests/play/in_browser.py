"""The page in headless Chromium, as the tests drive it: the first argument is its path."""

import pathlib
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

PAGE = pathlib.Path(sys.argv[1]).resolve()


def open_browser():
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--window-size=1440,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("chromedriver"), options=options)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = open_browser()
        cls.browser.set_script_timeout(120)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def tearDown(self):
        errors = [m for m in self.browser.get_log("browser") if m["level"] == "SEVERE"]
        self.assertEqual([m for m in errors if "favicon" not in m["message"]], [])

    def run_script(self, script):
        return self.browser.execute_script(script)

    def films(self):
        return int(self.run_script("return document.body.dataset.films") or 0)

    def wait_until(self, condition, seconds=60):
        WebDriverWait(self.browser, seconds, 0.02).until(lambda _: condition())

    def open(self, address=None, settings=""):
        self.browser.get("about:blank")
        self.browser.get((address or PAGE.as_uri()) + settings)
        self.wait_until(lambda: self.films() > 0)

    def text(self, name):
        return self.browser.find_element(By.ID, name).text

    def click(self, name):
        self.browser.find_element(By.ID, name).click()

    def index(self):
        return self.run_script("return play.player.index")

    def ask(self, request):
        return self.browser.execute_async_script(
            "const [request, done] = arguments; play.engine.ask(request).then(done, "
            "(e) => done({error: e.message}));", request)

    def change(self, name, value):
        """Sets a control, and waits for the engine. The new film."""
        before = self.films()
        control = self.browser.find_element(By.ID, f"set-{name}")
        if control.tag_name == "select":
            Select(control).select_by_value(value)
        else:
            self.run_script(f"const s = document.getElementById('set-{name}'); s.value = {value}; "
                            "s.dispatchEvent(new Event('input'))")
        self.wait_until(lambda: self.films() > before)
        return self.run_script("return play.film()")

    def emulate(self, **features):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def assert_nothing_is_cut(self, settings):
        for width, scheme in [(360, "dark"), (768, "light"), (1440, "dark")]:
            self.emulate(prefers_color_scheme=scheme)
            self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
            self.open(settings=settings)
            wide, there = self.run_script(
                "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]")
            self.assertEqual(wide, there, f"{settings} at {width}")
        self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.emulate()
