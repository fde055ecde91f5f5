// It trains: real losses, a sample, and the fingerprint of the weights under several strategies.
import { Engine } from './engine.js';
import { svgElement, htmlElement, tickStep, countText } from './draw.js';
import { engineSettings } from './settings.js';

const HEIGHT = 220;
const AT_ONCE = 5;  // steps of one request
const SAMPLE_EVERY = 100;
const COMPARED = ['no_shard', 'shard_optimizer', 'shard_gradients', 'shard_grad_op', 'full_shard'];
const COMPARED_STEPS = 10;

export class Training {
  constructor(settings) {
    this.engine = new Engine();
    this.settings = settings;  // a function
    this.view = (id) => document.getElementById(id);
    this.view('train-go').onclick = () => this.toggle();
    this.view('train-again').onclick = () => this.restart();
    this.view('compare').onclick = () => this.compare();
  }

  // More than the film's step, so that there is something to learn from.
  request() { return { ...engineSettings(this.settings()), batch_size: 4, block_size: 32 }; }

  // Another run takes the place of this one; what is under way for this one is not shown any more.
  restart(why = 'The training has not begun.') {
    this.run = { losses: [], ms: 0, parameters: 0 };
    this.setRunning(false);
    this.view('sample').textContent = 'After the first 100 steps, what the model writes.';
    this.view('train-numbers').textContent = why;
    this.draw([]);
  }

  setRunning(running) {
    this.running = running;
    this.view('train-go').textContent = running ? 'Pause' : this.run.parameters ? 'Go on' : 'Train';
  }

  async toggle() {
    this.setRunning(!this.running);
    if (this.busy) return;  // the steps under way end, and then it goes on or does not
    this.busy = true;
    while (this.running) await this.more(this.run);
    this.busy = false;
  }

  // Some steps of a run.
  async more(run) {
    try {
      if (!run.parameters) {
        const { parameters } = await this.engine.ask({ do: 'train', settings: this.request() });
        run.parameters = parameters;
      }
      if (run !== this.run) return;
      const begun = performance.now();
      const { losses } = await this.engine.ask({ do: 'steps', n: AT_ONCE });
      if (run !== this.run) return;
      run.losses.push(...losses);
      run.ms += performance.now() - begun;
      const n = run.losses.length;
      this.draw(run.losses);
      this.view('train-numbers').textContent = `${countText(run.parameters)} parameters, step ${countText(n)}, loss ` +
        `${losses.at(-1).toFixed(4)}, ${(run.ms / n).toFixed(0)} ms a step in this browser`;
      if (n % SAMPLE_EVERY > 0) return;
      const { text } = await this.engine.ask({ do: 'sample', length: 160 });
      if (run === this.run) this.view('sample').textContent = text;
    } catch (error) {
      if (run === this.run) this.restart(error.message);
    }
  }

  // Trains under other strategies beside the training, with the settings of this moment.
  async compare() {
    const engine = new Engine();
    const request = this.request();
    const rows = this.view('hashes');
    const hashes = new Set();
    rows.replaceChildren();
    this.view('verdict').textContent = '';
    this.view('compare').disabled = true;
    try {
      for (const strategy of COMPARED) {
        await engine.ask({ do: 'train', settings: { ...request, strategy, shard_size: 0 } });
        const { losses } = await engine.ask({ do: 'steps', n: COMPARED_STEPS });
        const { weights } = await engine.ask({ do: 'weights' });
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
    this.view('compare').disabled = false;
    engine.end();
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
