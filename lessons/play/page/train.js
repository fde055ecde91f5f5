// It trains: real losses, a sample, and the fingerprint of the weights under several strategies.
import { svgElement, htmlElement, tickStep, countText } from './draw.js';
import { engineSettings } from './settings.js';

const HEIGHT = 220;
const AT_ONCE = 5;  // steps of one request
const SAMPLE_EVERY = 100;
const COMPARED = ['no_shard', 'shard_optimizer', 'shard_gradients', 'shard_grad_op', 'full_shard'];
const COMPARED_STEPS = 10;

export class Training {
  constructor(engine, settings) {
    this.engine = engine;
    this.settings = settings;  // a function
    this.view = (id) => document.getElementById(id);
    this.view('train-go').onclick = () => this.toggle();
    this.view('train-again').onclick = () => this.restart();
    this.view('compare').onclick = () => this.compare();
  }

  // More than the film's step, so that there is something to learn from.
  request() { return { ...engineSettings(this.settings()), batch_size: 4, block_size: 32 }; }

  restart() {
    this.running = false;
    this.losses = null;
    this.view('sample').textContent = 'After the first 100 steps, what the model writes.';
    this.view('train-numbers').textContent = 'The training has not begun.';
    this.draw([]);
  }

  async toggle() {
    this.running = !this.running;
    this.view('train-go').textContent = this.running ? 'Pause' : 'Go on';
    if (!this.running || this.busy) return;
    this.busy = true;
    try {
      await this.train();
    } catch (error) {
      this.view('train-numbers').textContent = error.message;
      this.losses = null;
    }
    this.running = this.busy = false;
    this.view('train-go').textContent = this.losses ? 'Go on' : 'Train';
  }

  async train() {
    const begun = performance.now();
    let parameters = '';
    if (!this.losses) {
      this.losses = [];
      const answer = await this.engine.ask({ do: 'train', settings: this.request() });
      parameters = `${countText(answer.parameters)} parameters, `;
    }
    const before = this.losses.length;
    while (this.running && this.losses) {
      const { losses } = await this.engine.ask({ do: 'steps', n: AT_ONCE });
      if (!this.losses) return;
      this.losses.push(...losses);
      const n = this.losses.length;
      const each = (performance.now() - begun) / (n - before);
      this.draw(this.losses);
      this.view('train-numbers').textContent = `${parameters}step ${countText(n)}, loss ` +
        `${losses.at(-1).toFixed(4)}, ${each.toFixed(0)} ms a step in this browser`;
      if (n % SAMPLE_EVERY === 0) await this.sample();
    }
  }

  async sample() {
    const { text } = await this.engine.ask({ do: 'sample', length: 160 });
    this.view('sample').textContent = text;
  }

  async compare() {
    this.running = false;
    this.view('train-go').disabled = true;
    while (this.busy) await new Promise((resolve) => setTimeout(resolve, 20));  // the last steps
    this.busy = true;
    this.losses = null;
    this.view('train-go').textContent = 'Train';
    const rows = this.view('hashes');
    rows.replaceChildren();
    const hashes = new Set();
    try {
      for (const strategy of COMPARED) {
        await this.engine.ask({ do: 'train', settings: { ...this.request(), strategy, shard_size: 0 } });
        const { losses } = await this.engine.ask({ do: 'steps', n: COMPARED_STEPS });
        const { weights } = await this.engine.ask({ do: 'weights' });
        weights.forEach((hash) => hashes.add(hash));
        rows.append(htmlElement('tr', {}, ...[strategy, String(losses.at(-1)), weights[0]].map(
          (textContent) => htmlElement('td', { textContent }))));
      }
      this.view('verdict').textContent = hashes.size === 1
        ? `Equal, to the last bit of every weight, on all ranks, after ${COMPARED_STEPS} steps.`
        : `${hashes.size} different results. Rounded numbers (bfloat16) may differ, others must not.`;
    } catch (error) {
      this.view('verdict').textContent = error.message;
    }
    this.busy = this.view('train-go').disabled = false;
  }

  // At another width the same ones: what was trained stays to be seen when other runs follow it.
  draw(losses = this.drawn || []) {
    this.drawn = losses;
    const svg = this.view('losses');
    const width = svg.clientWidth || 320;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    svg.style.height = `${HEIGHT}px`;
    const most = 4.2;
    const steps = Math.max(100, Math.ceil(losses.length / 100) * 100);
    const x = (i) => 40 + (i / steps) * (width - 60);
    const y = (loss) => 12 + (1 - loss / most) * (HEIGHT - 52);
    for (let loss = 0; loss <= 4; loss += 1) {
      svgElement('line', { x1: 40, x2: width - 20, y1: y(loss), y2: y(loss), class: 'tick' }, svg);
      svgElement('text', { x: 32, y: y(loss) + 4, class: 'byte-text' }, svg).textContent = loss;
    }
    for (let i = 0; i <= steps; i += tickStep(steps)) {
      svgElement('text', { x: x(i), y: HEIGHT - 22, class: 'tick-text' }, svg).textContent = i;
    }
    svgElement('text', { x: x(steps / 2), y: HEIGHT - 5, class: 'tick-text' }, svg).textContent =
      'steps; loss in nats a character';
    const d = losses.map((loss, i) => `${i ? 'L' : 'M'}${x(i + 1).toFixed(1)} ${y(loss).toFixed(1)}`);
    if (losses.length) svgElement('path', { d: d.join(''), class: 'loss' }, svg);
  }
}
