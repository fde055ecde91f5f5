// Ranks as columns: what each holds now, to scale, and the state of each unit beside it.
import { svgElement, CLASSES, STACK, bytesText } from './draw.js';
import { unitStates } from './film.js';

const HEIGHT = 210;
const TOP = 24;
const BOTTOM = 20;
const STATE_LETTER = { shard: '', gather: '↓', whole: '■', reduce: '↑' };

// Where there is no room for more.
const shortBytes = (n) => (n < 999500 ? `${(n / 1e3).toFixed(0)}k` : `${(n / 1e6).toFixed(1)}M`);

export class Bars {
  constructor(svg, chosen) {
    this.svg = svg;
    this.chosen = chosen;  // called with the rank that was clicked
  }

  // Everything that does not move.
  show(film, selected) {
    this.film = film;
    const { svg } = this;
    const width = svg.clientWidth || 320;
    const scale = (HEIGHT - TOP - BOTTOM) / film.most;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    svg.style.height = `${HEIGHT}px`;
    const column = Math.min(150, width / film.ranks.length);
    this.ranks = film.ranks.map((rank, r) => {
      const left = r * column;
      const group = svgElement('g', { class: r === selected ? 'rank chosen' : 'rank' }, svg);
      group.onclick = () => this.chosen(r);
      const bar = Math.max(10, column * 0.5 - 4);
      svgElement('rect', { x: left, y: 0, width: column - 4, height: HEIGHT, class: 'ground' }, group);
      const name = svgElement('text', { x: left + 4, y: 15, class: 'name' }, group);
      name.textContent = column > 52 ? `rank ${r}` : `r${r}`;
      const peak = HEIGHT - BOTTOM - rank.totals[rank.peak] * scale;
      const boxes = CLASSES.map(({ key }) =>
        svgElement('rect', { x: left + 4, width: bar, class: `box ${key}` }, group));
      const letters = CLASSES.map(({ letter }) => {
        const text = svgElement('text', { x: left + 4 + bar / 2, class: /[pg]/.test(letter) ? 'letter borrowed' : 'letter' }, group);
        text.textContent = letter;
        return text;
      });
      svgElement('line', { x1: left + 2, x2: left + bar + 6, y1: peak, y2: peak, class: 'peak' },
        group);
      const total = svgElement('text', { x: left + 4, y: HEIGHT - 5, class: 'total' }, group);
      const cells = this.cells(group, left + bar + 12, column - bar - 18);
      return { rank, boxes, letters, total, cells, scale, column };
    });
  }

  cells(group, left, width) {
    const { units } = this.film;
    const pitch = Math.min(18, (HEIGHT - TOP - BOTTOM) / units.length);
    const labelled = width > 54 && pitch >= 10;
    return units.map((unit, u) => {
      const y = HEIGHT - BOTTOM - (u + 1) * pitch;
      const size = Math.min(width, labelled ? 20 : width);
      const cell = svgElement('rect', { x: left, y, width: size, height: pitch - 2 }, group);
      const sign = svgElement('text',
        { x: left + size / 2, y: y + pitch / 2 + 2.5, class: 'sign' }, group);
      if (labelled) {
        const label = svgElement('text', { x: left + size + 4, y: y + pitch - 5, class: 'unit' }, group);
        label.textContent = unit.short;
      }
      return { cell, sign, roomy: size >= 9 && pitch >= 9 };
    });
  }

  // What moves: event `index` has happened, and it is `at` seconds.
  at(index, at, sampleOf) {
    for (const { rank, boxes, letters, total, cells, scale, column } of this.ranks) {
      const { memory } = rank.samples[sampleOf(rank, index, at)];
      let y = HEIGHT - BOTTOM;
      let sum = 0;
      for (const c of STACK) {
        const height = memory[c] * scale;
        y -= height;
        sum += memory[c];
        boxes[c].setAttribute('y', y);
        boxes[c].setAttribute('height', Math.max(0, height));
        letters[c].setAttribute('y', y + height / 2 + 4);
        letters[c].style.visibility = height >= 12 ? 'visible' : 'hidden';
      }
      total.textContent = column > 62 ? bytesText(sum) : shortBytes(sum);
      const states = unitStates(this.film, rank, Math.min(index, rank.events.length - 1), at);
      this.film.units.forEach((unit, u) => {
        const state = states.get(unit.name);
        cells[u].cell.setAttribute('class', `cell ${state}`);
        cells[u].sign.textContent = cells[u].roomy ? STATE_LETTER[state] : '';
      });
    }
  }
}
