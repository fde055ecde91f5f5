"""site.py OUTPUT: the pages of the README and the lessons, the API, and an index of both to search.

A page lies where its Markdown lies in the repository, so that links stay what they are: README.md is
index.html there, any other x.md is x.html. pandoc renders them; Doxygen renders the headers into api/,
between the same contents. A link that leads nowhere is an error.
"""

import concurrent.futures
import html
import json
import os
import pathlib
import re
import shutil
import string
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent
HTML = pathlib.Path(sys.argv[1]) / "html"
TEMPLATE = string.Template((HERE / "page.html").read_text())
PICTURES = (".svg", ".png")


def pandoc(text, *options):
    done = subprocess.run(["pandoc", "--from=gfm", "--to=html", "--wrap=none", *options,
                           f"--lua-filter={HERE / 'site.lua'}"], input=text, capture_output=True, text=True)
    if done.returncode or done.stderr:
        sys.exit(f"make docs: pandoc says: {done.stderr}")
    return done.stdout


def words(markup):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def address(source):
    """Where the page of a Markdown file lies in the site."""
    return re.sub(r"README\.md$", "index.md", source)[:-2] + "html"


def relative(target, page):
    return os.path.relpath(target, os.path.dirname(page) or ".")


class Contents:
    """The pages in their order, as lessons/README.md lists them: parts, lessons, pages to look up."""

    def __init__(self):
        text = pathlib.Path("lessons/README.md").read_text()
        self.entries = [("nanofsdp", None), ("Start", "README.md"),
                        ("The whole idea", "lessons/one_file/README.md"),
                        ("The lessons", "lessons/README.md")]
        for line in text.splitlines():
            if part := re.match(r"\| \*\*(.*?)\*\*", line):
                self.entries.append((part[1], None))
            elif lesson := re.match(r"\| (\d+) · \[(.*?)\]\((.*?)\)", line):
                self.entries.append((f"{lesson[1]} · {lesson[2]}", "lessons/" + lesson[3]))
            elif line.startswith("## Pages to look things up"):
                self.entries.append((line[3:], None))
            elif page := re.match(r"- \[(.*?)\]\(([\w/]+\.md)\)", line):
                self.entries.append((page[1][0].upper() + page[1][1:], "lessons/" + page[2]))
        self.pages = [source for _, source in self.entries if source]
        self.title = {source: title for title, source in self.entries if source}
        self.links = [(title, source and address(source)) for title, source in self.entries] + [
            ("The library", None), ("Files", "api/files.html"), ("Classes", "api/annotated.html"),
            ("Namespaces", "api/namespaces.html")]

    def markup(self, page="", root="", sections=()):
        lines, is_open = [], False
        for title, target in self.links:
            if not target:
                lines.append(("</ul>" if is_open else "") + f"<h2>{title}</h2><ul>")
                is_open = True
                continue
            here = ' aria-current="page"' if target == page else ""
            inner = "".join(f'<li><a href="#{id}">{name}</a></li>' for id, name in sections) if here else ""
            lines.append(f'<li><a href="{root}{target}"{here}>{title}</a>' +
                         (f"<ul>{inner}</ul>" if inner else "") + "</li>")
        return "\n".join(lines) + "</ul>"

    def neighbours(self, source):
        """Links to the page before and the page after."""
        at, page = self.pages.index(source), address(source)
        around = [("prev", "← {}", self.pages[at - 1:at]), ("next", "{} →", self.pages[at + 1:at + 2])]
        return '<nav class="around" aria-label="Previous and next page">' + "".join(
            f'<a rel="{rel}" href="{relative(address(other), page)}">{words.format(self.title[other])}</a>'
            for rel, words, others in around for other in others) + "</nav>"


def api(contents):
    """Runs Doxygen; gives the page of every header and folder, and what there is to search."""
    frame = TEMPLATE.substitute(title="$title", root="../", contents=contents.markup(root="../"),
                                body="<div>\n@")
    for name, text in zip(("header", "footer"), frame.split("@")):
        (HTML.parent / f"{name}.html").write_text(text)
    own = {"OUTPUT_DIRECTORY": HTML, "HTML_HEADER": HTML.parent / "header.html",
           "HTML_FOOTER": HTML.parent / "footer.html", "HTML_STYLESHEET": HERE / "style.css",
           "GENERATE_TAGFILE": HTML.parent / "tags.xml"}
    subprocess.run(["doxygen", "-"], text=True, check=True, input=(HERE / "Doxyfile").read_text() +
                   "".join(f"{name} = {value}\n" for name, value in own.items()))
    for file in (HTML / "api").iterdir():
        # What no page loads, and lists by letters, for which there is the search.
        if file.suffix not in (".html", ".svg") and file.name != "closed.png" or re.match(
                r"(functions|namespacemembers|globals)(_.*)?\.html|index\.html|hierarchy|graph_legend|doxygen", file.name):
            file.unlink()
    places, found = {}, {}
    for compound in xml.etree.ElementTree.parse(HTML.parent / "tags.xml").getroot():
        kind, name = compound.get("kind"), compound.findtext("name")
        page = "api/" + compound.findtext("filename", "")
        page += "" if page.endswith(".html") else ".html"
        if kind == "file":
            places[os.path.relpath(compound.findtext("path") + name)] = page
        elif kind == "dir":
            places[os.path.relpath(compound.findtext("path"))] = page
        else:
            found[page] = name
            for member in compound.findall("member"):
                full = f"{name}::{member.findtext('name')}"
                found[f"api/{member.findtext('anchorfile')}#{member.findtext('anchor')}"] = full
    return places, [[url, name, ""] for url, name in found.items()]


def table(match):
    """A table that scrolls in its box. One with sentences has the name of its column in each cell: where
    there is no room, its rows become paragraphs."""
    heads = [words(head) for head in re.findall(r"<th[^>]*>(.*?)</th>", match[0], re.DOTALL)]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", match[0], re.DOTALL)
    if max(len(words(cell)) for cell in cells) <= 60:
        numbered = all(len(words(cell)) <= 3 for cell in cells[::max(1, len(heads))])
        return f'<div class="wide{" numbered" * numbered}">{match[0]}</div>'
    columns = iter(html.escape(heads[i % len(heads)]) for i in range(len(cells)))
    labelled = re.sub(r"<td", lambda _: f'<td data-column="{next(columns)}"', match[0])
    return f'<div class="wide sentences">{labelled}</div>'


class Page:
    def __init__(self, source, body, contents, places, glossary):
        self.source, self.body, self.page = source, body, address(source)
        self.contents, self.places, self.glossary = contents, places, glossary
        self.listings, self.pictures = set(), set()

    def link(self, match):
        """A link of the repository as a link of the site, or its words alone."""
        target, rest, text = match[1], match[2], match[3]
        if re.match(r"\w+:|#", target):
            return match[0]
        name, _, anchor = html.unescape(target).partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(self.source), name))
        if not os.path.exists(path):
            sys.exit(f"{self.source}: '{target}' leads nowhere")
        if path == "lessons/glossary.md" and anchor:
            if anchor not in self.glossary:
                sys.exit(f"{self.source}: the glossary has no '{anchor}'")
            rest = f' class="word" data-meaning="{html.escape(self.glossary[anchor])}"'
        if path in self.contents.pages:
            goal = address(path)
        elif path in self.places:
            goal = self.places[path]
        elif path.endswith(PICTURES):
            self.pictures.add(path)
            goal = path
        elif path.endswith(".md") or os.path.isdir(path):
            return text
        else:
            self.listings.add(path)
            goal = path + ".html"
        return f'<a href="{relative(goal, self.page)}{"#" * bool(anchor)}{anchor}"{rest}>{text}</a>'

    def picture(self, match):
        """A picture in a frame; it leads to itself, to be enlarged."""
        path = os.path.normpath(os.path.join(os.path.dirname(self.source), match[1]))
        self.pictures.add(path)
        url, text = relative(path, self.page), match[2]
        width = re.search(r'viewBox="0 0 (\d+)', pathlib.Path(path).read_text(errors="ignore"))
        large = " large" if not width or int(width[1]) > 500 else ""
        return f'<a class="picture{large}" href="{url}"><img src="{url}" alt="{text}"></a>'

    def render(self):
        body = re.sub(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', self.link, self.body, flags=re.DOTALL)
        body = re.sub(r'<img src="([^"]*)" alt="([^"]*)"[^>]*/>', self.picture, body)
        body = re.sub(r"<table.*?</table>", table, body, flags=re.DOTALL)
        sections = re.findall(r'<h2 id="([^"]*)">(.*?)</h2>', body)
        title = self.contents.title[self.source]
        around = self.contents.neighbours(self.source)
        root = relative(".", self.page) + "/"
        write(self.page, title, root, self.contents.markup(self.page, root, sections), around + body + around)
        parts = re.split(r'<h2 id="([^"]*)">(.*?)</h2>', body)
        return [[self.page, title, words(parts[0])]] + [
            [f"{self.page}#{id}", f"{title}: {words(name)}", words(text)]
            for id, name, text in zip(parts[1::3], parts[2::3], parts[3::3])]


def write(page, title, root, contents, body):
    path = HTML / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE.substitute(title=title, root=root, contents=contents, body=body))


def listing(path, contents):
    """A page with a source file."""
    language = {".cpp": "cpp", ".cu": "cpp", ".h": "cpp", ".sh": "bash", ".py": "python"}
    kind = language.get(os.path.splitext(path)[1], "text")
    body = pandoc(f"# {path}\n\n````````{kind}\n{pathlib.Path(path).read_text()}````````\n")
    root = relative(".", path) + "/"
    write(path + ".html", path, root, contents.markup(root=root), body)


def glossary_entries():
    """The text of each entry, by each of its anchors."""
    entries = {}
    for line in pathlib.Path("lessons/glossary.md").read_text().splitlines():
        if line.startswith("| <a id="):
            _, word, meaning, _, _ = re.split(r"(?<!\\)\|", line)
            text = words(re.sub(r"\[([^]]*)\]\([^)]*\)|\*\*|`", r"\1", f"{word}: {meaning}")).replace(" :", ":")
            entries |= dict.fromkeys(re.findall(r'<a id="([^"]*)">', line), text)
    return entries


def main():
    shutil.rmtree(HTML.parent, ignore_errors=True)
    HTML.mkdir(parents=True)
    contents, glossary = Contents(), glossary_entries()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        library = pool.submit(api, contents)
        read = lambda source: pandoc(pathlib.Path(source).read_text(), "--mathml")
        bodies = list(pool.map(read, contents.pages))
        places, index = library.result()
        pages = [Page(source, body, contents, places, glossary)
                 for source, body in zip(contents.pages, bodies)]
        for page in pages:
            index = index + page.render()
        for entry, anchor in {entry: anchor for anchor, entry in reversed(glossary.items())}.items():
            index.append([f"lessons/glossary.html#{anchor}", f"Glossary: {entry.split(':')[0]}", entry])
        listings = sorted(set().union(*(page.listings for page in pages)))
        list(pool.map(lambda path: listing(path, contents), listings))
    for picture in set().union(*(page.pictures for page in pages)):
        (HTML / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, HTML / picture)
    for name in ("style.css", "site.js"):
        shutil.copy(HERE / name, HTML / name)
    (HTML / "search.js").write_text(f"const PLACES = {json.dumps(index, ensure_ascii=False)};\n")


if __name__ == "__main__":
    main()
