// What the pages do with a script; without it, a word of the glossary leads to its entry, and nothing
// can be searched.
"use strict";

const root = document.currentScript.dataset.root;
const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// A word's meaning beside the word. Escape, or a click elsewhere, closes it.
function explain(link) {
  const note = make("span", { className: "meaning", popover: "auto", tabIndex: -1, autofocus: true },
    link.dataset.meaning + " ", make("a", { href: link.href }, "In the glossary"));
  note.addEventListener("toggle", (event) => event.newState === "closed" && note.remove());
  link.after(note);
  note.showPopover();
  const place = link.getClientRects()[0];
  const rightmost = document.documentElement.clientWidth - note.offsetWidth - 8;
  note.style.left = `${Math.max(8, Math.min(place.left, rightmost))}px`;
  note.style.top = `${place.bottom + scrollY + 4}px`;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.word");
  if (!link || !("popover" in link) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  explain(link);
});

// The contents begin where the reader is.
const contents = document.getElementById("contents");
const here = contents.querySelector("[aria-current]");
const show_here = () => { if (here) contents.scrollTop = here.offsetTop - contents.clientHeight / 3; };
contents.addEventListener("toggle", show_here);
contents.addEventListener("click", (event) => event.target.closest("a") && contents.hidePopover && contents.hidePopover());
show_here();

// Search: the index is a script, because a page that is opened from a file may fetch nothing else.
const search = document.getElementById("search");
const [field, list] = search.children;
search.hidden = false;

function find() {
  const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [url, title, text] of asked.length ? PLACES : []) {
    const [heading, all] = [title.split(": ").pop().toLowerCase(), `${title} ${text}`.toLowerCase()];
    if (!asked.every((word) => all.includes(word))) continue;
    const named = asked.every((word) => heading.includes(word));
    const rank = heading === asked.join(" ") ? 0 : named ? (text ? 1 : 2) : 3;
    const at = text.lastIndexOf(" ", text.toLowerCase().indexOf(asked[0]) - 30) + 1;
    found.push([rank, make("li", {}, make("a", { href: root + url }, title), ` ${text.slice(at, at + 110)}`)]);
  }
  found.sort(([a], [b]) => a - b);
  list.replaceChildren(...found.slice(0, 20).map(([, item]) => item));
  if (asked.length && !found.length) list.append(make("li", {}, "Nothing found."));
}

field.addEventListener("focus", () => document.head.append(
  make("script", { src: `${root}search.js`, onload: find })), { once: true });
field.addEventListener("input", () => typeof PLACES !== "undefined" && find());
