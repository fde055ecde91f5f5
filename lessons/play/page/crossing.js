// Where communication takes over: the plan of a step for a row of settings, and a chart of it.
import { svgElement, tickStep, timeText, countText } from './draw.js';

const HEIGHT = 230;
const LEFT = 74;
const BOTTOM = 190;
const BOUND = 0.1;  // of a step, in which computation waits

// What is varied: its values, the settings for one of them, and how long a step then counts.
const TOKENS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
const AXES = {
  gpus: {
    values: [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], unit: 'GPUs',
    mine: (s) => Number(s.gpus), set: (s, n) => ({ ...s, gpus: String(n) }), share: () => 1,
  },
  tokens: {
    values: TOKENS, unit: 'tokens a GPU',
    mine: (s) => s.gpu_rows * s.row_tokens,
    set: (s, n) => ({ ...s, row_tokens: Math.min(n, s.row_tokens), gpu_rows: Math.max(1, n / s.row_tokens) }),
    share: (s, n) => n * s.gpu_micro,
  },
};

export const axisOf = (name) => AXES[name];

// Of a plan: seconds of a step and, of them, those in which computation waits for collectives.
export const waitsOf = (plan) => plan.exposed_seconds.all_gathers + plan.exposed_seconds.reductions;

const isBound = (plan) => waitsOf(plan) > BOUND * plan.seconds;

// In words: between which neighbours computation begins, or ends, to wait.
export const crossingText = (points, axis) => {
  const bound = points.filter(({ plan }) => isBound(plan));
  const means = `computation waits for more than ${BOUND * 100} % of the step`;
  if (bound.length === 0) return `Nowhere here communication-bound: at no point ${means}.`;
  if (bound.length === points.length) return `Communication-bound everywhere here: ${means}.`;
  const at = points.findIndex((p, i) => i > 0 && isBound(p.plan) !== isBound(points[i - 1].plan));
  const [first, second] = [points[at - 1], points[at]];
  const place = `somewhere between ${countText(first.n)} and ${countText(second.n)} ${axis.unit}`;
  return `Communication-bound ${isBound(second.plan) ? `from ${place} on` : `up to ${place}`}: there ${means}.`;
};

export const drawCrossing = (svg, points, axis, settings) => {
  const width = svg.clientWidth || 320;
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  svg.style.height = `${HEIGHT}px`;
  const { values } = axis;
  const x = (i) => LEFT + ((i + 0.5) / values.length) * (width - LEFT - 8);
  values.forEach((n, i) => {
    const words = width < 520 && n >= 1024 ? `${n / 1024}k` : String(n);
    const text = svgElement('text', { x: x(i), y: BOTTOM + 16, class: 'tick-text' }, svg);
    text.textContent = words;
  });
  svgElement('text', { x: (LEFT + width) / 2, y: BOTTOM + 34, class: 'tick-text' }, svg).textContent =
    axis.unit;
  const seconds = points.map(({ n, plan }) => plan.seconds / axis.share(settings, n));
  const alone = points.map(({ plan }, i) => seconds[i] * (1 - waitsOf(plan) / plan.seconds));
  const most = Math.max(1e-9, ...seconds) * 1.06;
  const y = (s) => BOTTOM - (s / most) * (BOTTOM - 8);
  for (let s = 0; s < most; s += tickStep(most)) {
    svgElement('line', { x1: LEFT, x2: width, y1: y(s), y2: y(s), class: 'tick' }, svg);
    svgElement('text', { x: LEFT - 6, y: y(s) + 4, class: 'byte-text' }, svg).textContent =
      s === 0 ? '0' : timeText(s).replace(/\.0+ /, ' ').replace(/(\.\d*[1-9])0+ /, '$1 ');
  }
  const place = (row) => row.map((s, i) => `${x(values.indexOf(points[i].n)).toFixed(1)} ${y(s).toFixed(1)}`);
  if (points.length > 1) {
    const d = `M${place(seconds).join('L')}L${place(alone).reverse().join('L')}Z`;
    svgElement('path', { d, class: 'waits' }, svg);
    svgElement('path', { d: `M${place(seconds).join('L')}`, class: 'whole-step' }, svg);
    svgElement('path', { d: `M${place(alone).join('L')}`, class: 'alone' }, svg);
  }
  points.forEach(({ n, plan }, i) => {
    const at = { cx: x(values.indexOf(n)), cy: y(seconds[i]), r: n === axis.mine(settings) ? 6 : 4 };
    const dot = svgElement('circle', { ...at, class: plan.fits ? 'dot' : 'dot too-large' }, svg);
    svgElement('title', {}, dot).textContent = `${countText(n)} ${axis.unit}: ${timeText(plan.seconds)}` +
      `, waits ${(100 * waitsOf(plan) / plan.seconds).toFixed(0)} %${plan.fits ? '' : ', out of memory'}`;
    if (i > 0 && isBound(plan) !== isBound(points[i - 1].plan)) {
      const middle = (x(values.indexOf(n)) + x(values.indexOf(points[i - 1].n))) / 2;
      svgElement('line', { x1: middle, x2: middle, y1: 4, y2: BOTTOM, class: 'crossing' }, svg);
    }
  });
};
