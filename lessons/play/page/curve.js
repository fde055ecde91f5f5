// The ledger of one rank over time, by class, with its peak.
import { svgElement, CLASSES, STACK, bytesText, timeText, tickStep } from './draw.js';
import { timeAxis, drawTicks } from './lanes.js';

const HEIGHT = 150;
const TOP = 22;
const AXIS = 24;

export class Curve {
  constructor(svg, moved) {
    this.svg = svg;
    svg.addEventListener('pointerdown', (event) => moved(this.axis.time(event.offsetX)));
  }

  show(film, rank) {
    const { svg } = this;
    const axis = timeAxis(svg, film);
    this.axis = axis;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${axis.width} ${HEIGHT + AXIS}`);
    svg.style.height = `${HEIGHT + AXIS}px`;
    const y = (bytes) => HEIGHT - (bytes / film.most) * (HEIGHT - TOP);
    drawTicks(svg, axis, film, HEIGHT);
    this.drawBytes(axis, film.most, y);
    const below = rank.samples.map(() => 0);
    for (const c of STACK) {
      const upper = rank.samples.map((s, i) => below[i] + s.memory[c]);
      if (rank.samples.some((s) => s.memory[c] > 0)) {
        const d = `${this.edge(rank, upper, axis, y, film, false)} ` +
          `${this.edge(rank, below, axis, y, film, true)} Z`;
        svgElement('path', { d, class: `area ${CLASSES[c].key}` }, svg);
      }
      upper.forEach((value, i) => { below[i] = value; });
    }
    this.head = svgElement('line', { y1: 0, y2: HEIGHT + 4, class: 'head' }, svg);
    this.drawPeak(rank, axis, y);
  }

  // Steps: bytes stay until the next sample. Backwards for the lower edge of an area.
  edge(rank, values, axis, y, film, backwards) {
    const points = [];
    values.forEach((value, i) => {
      const end = i + 1 < values.length ? rank.times[i + 1] : film.seconds;
      points.push([axis.x(rank.times[i]), y(value)], [axis.x(end), y(value)]);
    });
    if (backwards) points.reverse();
    return points.map(([px, py], i) =>
      `${i === 0 && !backwards ? 'M' : 'L'}${px.toFixed(1)} ${py.toFixed(1)}`).join('');
  }

  drawBytes(axis, most, y) {
    const step = tickStep(most);
    for (let bytes = step; bytes < most; bytes += step) {
      svgElement('line', { x1: axis.left, x2: axis.width, y1: y(bytes), y2: y(bytes), class: 'tick' },
        this.svg);
      if (axis.left < 60) continue;
      const text = svgElement('text', { x: axis.left - 6, y: y(bytes) + 4, class: 'byte-text' },
        this.svg);
      text.textContent = bytesText(bytes).replace(/\.?0+ /, ' ');
    }
  }

  drawPeak(rank, axis, y) {
    const bytes = rank.totals[rank.peak];
    const at = rank.times[rank.peak];
    const x = axis.x(at);
    svgElement('circle', { cx: x, cy: y(bytes), r: 4, class: 'peak-dot' }, this.svg);
    const right = x > axis.left + axis.inner / 2;
    const text = svgElement('text',
      { x: right ? x - 8 : x + 8, y: 13, class: right ? 'peak-text end' : 'peak-text' }, this.svg);
    text.textContent = `peak ${bytesText(bytes)} at ${timeText(at)}`;
  }

  at(at) {
    const x = this.axis.x(at);
    this.head.setAttribute('x1', x);
    this.head.setAttribute('x2', x);
  }
}
