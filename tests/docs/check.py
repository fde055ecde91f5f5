"""check.py SITE: the built site keeps its promises; `make docs` ends with it.

Every link leads somewhere, and nothing is loaded from a network. Lessons have a page before and a page
after, contents, and every block of code and every formula of their Markdown. A word of the glossary
brings the text of its entry along. The style sheet stays small.
"""

import html.parser
import json
import os
import pathlib
import re
import sys
import urllib.parse

SITE = pathlib.Path(sys.argv[1]).resolve()
LINES_OF_STYLE = 200


class Page(html.parser.HTMLParser):
    """What a page links to, loads and defines."""

    def __init__(self, path):
        super().__init__()
        self.path, self.links, self.loads, self.ids, self.count = path, [], [], {}, {}
        self.text = {}  # of a row of a table, by each anchor in it
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        have = dict(attributes)
        self.count[tag] = self.count.get(tag, 0) + 1
        for name in ("id", "name") if tag == "a" else ("id",):
            if have.get(name):
                self.ids[have[name]] = tag
        if tag == "a" and have.get("href"):
            self.links.append(have)
        elif tag in ("script", "img", "iframe", "link", "source", "object"):
            self.loads += [have[name] for name in ("src", "href", "data", "srcset") if have.get(name)]
        if tag == "tr":  # an entry of the glossary
            self.row = ["", []]
        elif hasattr(self, "row") and have.get("id"):
            self.row[1].append(have["id"])

    def handle_data(self, data):
        if hasattr(self, "row"):
            self.row[0] += data

    def handle_endtag(self, tag):
        if tag == "tr" and hasattr(self, "row"):
            self.text |= dict.fromkeys(self.row[1], " ".join(self.row[0].split()))
            del self.row


def main():
    pages = {path: Page(path) for path in sorted(SITE.rglob("*.html")) if path.name != "play.html"}
    files, wrong = set(SITE.rglob("*")), []

    def expect(holds, page, what):
        if not holds:
            wrong.append(f"{page.path.relative_to(SITE)}: {what}")

    def target(page, url):
        parts = urllib.parse.urlsplit(url)
        path = os.path.normpath(os.path.join(page.path.parent, urllib.parse.unquote(parts.path)))
        return pathlib.Path(path) if parts.path else page.path, urllib.parse.unquote(parts.fragment)

    for page in pages.values():
        for url in page.loads:
            expect(not re.match(r"(\w+:|//|/)", url), page, f"loads {url}, which is not in the site")
            expect(target(page, url)[0] in files, page, f"loads {url}, which is not there")
        expect([url for url in page.loads if url.endswith(".css")] ==
               ["../" * (len(page.path.relative_to(SITE).parts) - 1) + "style.css"
                if page.path.parent != SITE else "./style.css"], page, "style sheets other than the one")
        for link in page.links:
            if re.match(r"\w+:", link["href"]):
                continue
            path, anchor = target(page, link["href"])
            expect(path in files, page, f"a link to {link['href']}, which is not there")
            if anchor and path in pages and page.path.parent != SITE / "api":  # Doxygen forgets some
                expect(anchor in pages[path].ids, page, f"a link to {link['href']}: no such anchor")

    glossary = pages[SITE / "lessons/glossary.html"]
    anchors = re.findall(r'<a id="([^"]*)">', pathlib.Path("lessons/glossary.md").read_text())
    for anchor in anchors:
        expect(glossary.text.get(anchor), glossary, f"no entry '{anchor}'")
    lessons = sorted(pathlib.Path("lessons").glob("[0-9]*/README.md"))
    for source in lessons:
        page, text = pages[SITE / source.parent / "index.html"], source.read_text()
        for rel in ("prev", "next"):
            expect(sum(link.get("rel") == rel for link in page.links) == 2, page, f"no {rel} at both ends")
        goals = {target(page, link["href"])[0] for link in page.links}
        for other in lessons:
            expect(SITE / other.parent / "index.html" in goals, page, f"{other} is not in the contents")
        sections = len(re.findall(r"^## ", text, re.MULTILINE))
        inside = [link for link in page.links if link["href"].startswith("#") and link["href"][1:3] != "cb"]
        expect(len(inside) == sections, page, f"{len(inside)} of {sections} sections in the contents")
        fences = re.findall(r"^```(\w*)\n", text, re.MULTILINE)
        formulas = fences.count("math")
        expect(page.count.get("math", 0) == formulas, page, f"not {formulas} formulas")
        blocks = len(re.findall(r"^```", text, re.MULTILINE)) // 2 - formulas
        expect(page.count.get("pre", 0) == blocks, page, f"not {blocks} blocks of code")
    words = 0
    for page in pages.values():
        for link in page.links:
            path, anchor = target(page, link["href"])
            if path == glossary.path and anchor and page is not glossary:
                words += 1
                meaning = link.get("data-meaning", "")
                plain = glossary.text.get(anchor, "").replace(" ", "")
                expect(len(meaning) > 30 and meaning.replace(": ", "", 1).replace(" ", "") in plain, page,
                       f"'{anchor}' opens as '{meaning}'")
    expect(words > len(lessons), glossary, "hardly a link to it")

    index = json.loads((SITE / "search.js").read_text().removeprefix("const PLACES = ").removesuffix(";\n"))
    for url, title, _ in index:
        path, _, anchor = url.partition("#")
        if SITE / path not in pages or (anchor and anchor not in pages[SITE / path].ids):
            wrong.append(f"search.js: '{title}' leads to {url}, which is not there")
    for source in lessons:
        if not any(url == f"{source.parent}/index.html" for url, _, _ in index):
            wrong.append(f"search.js: {source} cannot be found")

    style = (SITE / "style.css").read_text()
    if len(style.splitlines()) > LINES_OF_STYLE or "url(" in style or "@import" in style:
        wrong.append(f"style.css: more than {LINES_OF_STYLE} lines, or it loads something")
    if wrong:
        sys.exit("\n".join(wrong[:40]) + f"\ncheck.py: {len(wrong)} things are wrong in {SITE}")
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values()):,} links, {words} words "
          f"explained, {len(style.splitlines())} lines of style")


if __name__ == "__main__":
    main()
