// At scale: the plan of a step on thousands of simulated GPUs.
import { svgElement, htmlElement, CLASSES, STACK, bytesText, timeText, countText } from './draw.js';
import { planArguments } from './settings.js';
import { spanOf } from './film.js';
import { Lanes } from './lanes.js';
import { axisOf, crossingText, drawCrossing, waitsOf } from './crossing.js';

const HEIGHT = 84;

export class Scale {
  constructor(engine, settings) {
    this.engine = engine;
    this.settings = settings;  // a function
    this.asked = 0;
    this.known = new Map();  // plans of the curve, by their arguments
    this.view = (id) => document.getElementById(`scale-${id}`);
    this.lanes = new Lanes(this.view('lanes'), () => {});
    this.view('over').onchange = () => this.run();
    this.view('zoom').oninput = () => {
      const times = 2 ** Number(this.view('zoom').value);
      this.view('zoom-text').textContent = `${times} ×`;
      this.view('lanes').style.width = `${100 * times}%`;
      this.drawLanes();
    };
  }

  // Plans the step, then what would fit if it does not, then the curve. A later run() ends an
  // earlier one.
  async run() {
    const mine = ++this.asked;
    const args = planArguments(this.settings());
    this.view('command').replaceChildren('nanofsdp plan',
      ...args.flatMap((textContent) => [' ', htmlElement('span', { textContent })]));
    this.view('advice').hidden = true;
    try {
      const answer = await this.engine.ask({ do: 'plan', args });
      if (mine !== this.asked) return;
      this.plan = answer.plan;
      this.spans = answer.spans.map(spanOf);
      this.points = [];
      this.draw();
      document.body.dataset.plans = Number(document.body.dataset.plans || 0) + 1;
      if (!this.plan.fits) await this.advise(args, mine);
      await this.sweep(mine);
    } catch (error) {
      if (mine !== this.asked) return;
      this.view('verdict').textContent = error.message;
      this.view('verdict').className = 'bad';
    }
  }

  async advise(args, mine) {
    const { text } = await this.engine.ask({ do: 'explain', args });
    if (mine !== this.asked) return;
    this.view('advice').textContent = `The planner says:\n${text.trimEnd()}`;
    this.view('advice').hidden = false;
  }

  async sweep(mine) {
    const settings = this.settings();
    const axis = axisOf(this.view('over').value);
    for (const n of axis.values) {
      const args = planArguments(axis.set(settings, n));
      const key = args.join(' ');
      if (!this.known.has(key)) this.known.set(key, (await this.engine.ask({ do: 'plan', args })).plan);
      if (mine !== this.asked) return;
      this.points.push({ n, plan: this.known.get(key) });
      drawCrossing(this.view('curve'), this.points, axis, settings);
    }
    this.view('crossing').textContent = crossingText(this.points, axis);
    document.body.dataset.sweeps = Number(document.body.dataset.sweeps || 0) + 1;
  }

  draw() {
    if (!this.plan) return;
    const { plan } = this;
    const waits = waitsOf(plan);
    const figures = {
      'a step takes': timeText(plan.seconds) + (plan.straggler_seconds > 0
        ? `, and ${timeText(plan.straggler_seconds)} more for late ranks` : ''),
      'tokens/s a GPU, with late ranks': countText(plan.tokens_per_s),
      'tokens/s in all': countText(plan.tokens_per_s * plan.ranks),
      'of the GPU’s arithmetic (MFU)': `${(100 * plan.mfu).toFixed(1)} %`,
      'computation waits': `${timeText(waits)}, ${(100 * waits / plan.seconds).toFixed(0)} %`,
      'communication is under way': timeText(plan.communication_seconds),
      'parameters': countText(plan.parameters),
    };
    this.view('figures').replaceChildren(...Object.entries(figures).map(([name, value]) =>
      htmlElement('div', {}, htmlElement('dt', { textContent: name }),
        htmlElement('dd', { textContent: value }))));
    const [needs, has] = [plan.peak_bytes, plan.memory_bytes - plan.reserve_bytes].map(bytesText);
    this.view('verdict').className = plan.fits ? '' : 'bad';
    this.view('verdict').textContent = plan.fits
      ? `It fits: a GPU holds ${needs} of the ${has} that it can have.`
      : `OUT OF MEMORY: a GPU would need ${needs}, and can have ${has}.`;
    this.drawMemory();
    this.drawLanes();
    drawCrossing(this.view('curve'), this.points, axisOf(this.view('over').value), this.settings());
  }

  drawLanes() {
    if (this.plan) this.lanes.show({ seconds: this.plan.seconds }, { spans: this.spans });
  }

  // One bar to scale, and the line of what the GPU has.
  drawMemory() {
    const svg = this.view('memory');
    const { bytes, peak_bytes: needs } = this.plan, has = this.plan.memory_bytes - this.plan.reserve_bytes;
    const width = svg.clientWidth || 320;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    svg.style.height = `${HEIGHT}px`;
    const x = (b) => (b / Math.max(has, needs)) * (width - 4);
    const held = CLASSES.map(({ key }) => bytes[key.replaceAll('-', ' ')]);
    svgElement('rect', { x: 0, y: 26, width: x(has), height: 34, class: 'free' }, svg);
    let from = 0;
    for (const c of STACK) {
      const [left, wide] = [x(from), x(held[c])];
      svgElement('rect', { x: left, y: 26, width: wide, height: 34, class: `box ${CLASSES[c].key}` }, svg);
      if (wide > 14) {
        svgElement('text', { x: left + wide / 2, y: 47, class: /[pg]/.test(CLASSES[c].letter) ? 'letter borrowed' : 'letter' },
          svg).textContent = CLASSES[c].letter;
      }
      from += held[c];
    }
    if (needs > has) svgElement('rect', { x: x(has), y: 24, width: x(needs) - x(has), height: 38, class: 'beyond' }, svg);
    svgElement('line', { x1: x(has), x2: x(has), y1: 18, y2: 66, class: 'limit' }, svg);
    const end = x(has) > width / 2 ? 'peak-text end' : 'peak-text';
    svgElement('text', { x: x(has), y: 13, class: end }, svg).textContent = `the GPU can have ${bytesText(has)}`;
    svgElement('text', { x: Math.max(0, x(needs)), y: 79, class: x(needs) > width / 2 ? 'peak-text end' : 'peak-text' },
      svg).textContent = needs > has ? `${bytesText(needs - has)} too much` : `${bytesText(needs)} are held`;
    this.view('legend').replaceChildren(...CLASSES.map(({ key, name, letter }, c) => htmlElement('tr', {},
      htmlElement('td', { className: `swatch ${key}`, textContent: letter }), htmlElement('td', { textContent: name }),
      htmlElement('td', { className: 'number', textContent: bytesText(held[c]) }))));
  }
}
