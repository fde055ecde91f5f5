// The events of one rank as sentences, each with its lines of source and its lesson.
import { htmlElement, timeText, bytesText, shortName, CLASSES } from './draw.js';
import { describe } from './words.js';

const LANE_CLASS = { gather: 'gather', scatter: 'reduce', reduce: 'reduce', wait: 'wait',
  forward: 'forward', backward: 'backward', optimizer: 'optimizer' };

export class EventList {
  constructor(list, chosen, excerpts) {
    this.list = list;
    this.chosen = chosen;
    this.excerpts = excerpts;
  }

  show(rank, number) {
    this.items = rank.events.map((event, i) => {
      const said = describe(event, rank);
      const text = htmlElement('span', { textContent: `Rank ${number} ${said.text}` });
      const time = htmlElement('span', { className: 'time', textContent: timeText(event.at) });
      const mark = htmlElement('span', { className: `mark ${LANE_CLASS[said.kind] || 'plain'}` });
      const item = htmlElement('li', {}, mark, time, text, htmlElement('span', { className: 'links' },
        this.sourceLink(said), this.lessonLink(said), this.golden(event)));
      item.onclick = (click) => { if (!click.target.closest('a, button')) this.chosen(i); };
      return item;
    });
    this.current = null;
    this.list.replaceChildren(...this.items);
  }

  sourceLink({ source }) {
    const { path, line, text } = this.excerpts[source];
    const button = htmlElement('button',
      { className: 'source', type: 'button', textContent: `${path}:${line}` });
    button.onclick = () => showExcerpt(path, line, text);
    return button;
  }

  // As the tracer writes it: the golden orders of the lessons and the tests.
  golden(event) {
    const textContent = event.verb ? `${event.verb}.${shortName(event.unit)}` : '';
    return htmlElement('code', { textContent, title: 'as the tracer writes it' });
  }

  lessonLink({ lesson, lessonPath }) {
    const href = document.body.dataset.lessons.replace('{}', lessonPath);
    return htmlElement('a',
      { href, textContent: `lesson ${String(lesson).padStart(2, '0')}` });
  }

  at(index, smooth) {
    const item = this.items[index];
    if (item === this.current) return;
    const goesOn = smooth && this.current;  // a new list is there at once
    if (this.current) this.current.removeAttribute('aria-current');
    this.current = item;
    item.setAttribute('aria-current', 'step');
    const top = item.offsetTop - this.list.clientHeight / 3;
    this.list.scrollTo({ top, behavior: goesOn ? 'smooth' : 'auto' });
  }
}

const showExcerpt = (path, line, text) => {
  const dialog = document.getElementById('excerpt');
  const link = htmlElement('a',
    { href: `${document.body.dataset.source}${path}`, textContent: `src/${path}` });
  const numbered = text.split('\n').map((row, i) => `${String(line + i).padStart(4)}  ${row}`);
  dialog.querySelector('h2').replaceChildren(link, `, from line ${line}`);
  dialog.querySelector('pre').textContent = numbered.join('\n');
  dialog.showModal();
};

// The legend, and at once a table: what the chosen rank holds now, and at most, and what memory
// is set aside for it, slots that are free included.
export const showLegend = (table, rank) => {
  table.replaceChildren(htmlElement('tr', {},
    ...['', '', 'now', 'peak', 'reserved'].map((t) => htmlElement('th', { textContent: t }))));
  return CLASSES.map((c, i) => {
    const now = htmlElement('td', { className: 'number' });
    const peak = Math.max(...rank.samples.map((s) => s.memory[i]));
    table.append(htmlElement('tr', {},
      htmlElement('td', { className: `swatch ${c.key}`, textContent: c.letter }),
      htmlElement('td', { textContent: c.name }), now,
      htmlElement('td', { className: 'number', textContent: bytesText(peak) }),
      htmlElement('td', { className: 'number', textContent: bytesText(rank.ledger[i][0]) })));
    return now;
  });
};
