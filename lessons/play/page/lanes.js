// The lanes of one rank on the time axis: which stream worked when, and when computation stood.
import { svgElement, tickStep, timeText, shortName } from './draw.js';
import { LANES } from './film.js';

const ROW = 30;
const AXIS = 24;

// Where time lies, for the lanes and the curve alike.
export const timeAxis = (svg, film) => {
  const width = svg.clientWidth || 320;
  const left = width > 520 ? 96 : 26;
  const inner = width - left - 12;
  return { width, left, inner, x: (t) => left + (t / film.seconds) * inner,
    time: (x) => Math.min(film.seconds, Math.max(0, ((x - left) / inner) * film.seconds)) };
};

export const drawTicks = (svg, axis, film, y) => {
  const step = tickStep(film.seconds * (axis.inner < 400 ? 2 : Math.min(1, 1000 / axis.inner)));
  for (let t = 0; t <= film.seconds * 1.0001; t += step) {
    svgElement('line', { x1: axis.x(t), x2: axis.x(t), y1: 0, y2: y, class: 'tick' }, svg);
    const text = svgElement('text', { x: axis.x(t), y: y + 15, class: 'tick-text' }, svg);
    text.textContent = t === 0 ? '0' : timeText(t).replace('.00', '');
  }
};

const classOf = (span) => {
  if (span.lane === 1) return 'span gather';
  if (span.lane === 2) return 'span reduce';
  if (span.lane === 3) return span.end - span.begin > 1e-9 ? 'span wait' : 'span hidden';
  if (span.name === 'optimizer') return 'span optimizer';
  return `span ${span.pass}${span.unit === 'root' ? ' around' : ''}`;
};

const SIGN = { forward: 'F ', backward: 'B ' };

const labelOf = (span) => {
  if (span.lane === 3) return '';
  if (span.name === 'optimizer') return 'AdamW';
  return `${SIGN[span.pass] || ''}${shortName(span.unit)}`;
};

export class Lanes {
  constructor(svg, moved) {
    this.svg = svg;
    const seek = (event) => moved(this.axis.time(event.offsetX));
    svg.addEventListener('pointerdown', (event) => {
      svg.setPointerCapture(event.pointerId);
      seek(event);
    });
    svg.addEventListener('pointermove', (event) => { if (event.buttons) seek(event); });
  }

  show(film, rank) {
    const { svg } = this;
    const axis = timeAxis(svg, film);
    const height = LANES.length * ROW;
    this.axis = axis;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${axis.width} ${height + AXIS}`);
    svg.style.height = `${height + AXIS}px`;
    drawTicks(svg, axis, film, height);
    LANES.forEach((lane, i) => {
      const text = svgElement('text', { x: 2, y: i * ROW + 19, class: 'lane-name' }, svg);
      text.textContent = axis.left > 60 ? lane : ['C', 'G', 'R', 'W'][i];
      svgElement('line',
        { x1: axis.left, x2: axis.width, y1: (i + 1) * ROW, y2: (i + 1) * ROW, class: 'rule' }, svg);
    });
    this.rects = rank.spans.map((span) => this.drawSpan(span, axis));
    this.head = svgElement('line', { y1: 0, y2: height + 4, class: 'head' }, svg);
  }

  drawSpan(span, axis) {
    const x = axis.x(span.begin);
    const width = Math.max(0.5, axis.x(span.end) - x);
    const around = span.unit === 'root' && span.lane === 0;
    const y = span.lane * ROW + (around ? 2 : 6);
    const rect = svgElement('rect',
      { x, y, width, height: around ? ROW - 4 : ROW - 10, class: classOf(span) }, this.svg);
    const label = labelOf(span);
    svgElement('title', {}, rect).textContent =
      `${LANES[span.lane]} ${span.name}: ${timeText(span.end - span.begin)}`;
    if (label && !around && width > label.length * 6.5 + 4) {
      const text = svgElement('text',
        { x: x + width / 2, y: span.lane * ROW + 19.5, class: 'span-text' }, this.svg);
      text.textContent = label;
    }
    return rect;
  }

  at(event, at) {
    const x = this.axis.x(at);
    this.head.setAttribute('x1', x);
    this.head.setAttribute('x2', x);
    if (this.lit) this.lit.classList.remove('lit');
    this.lit = event && event.span ? this.rects[event.number] : null;
    if (this.lit) this.lit.classList.add('lit');
  }
}
