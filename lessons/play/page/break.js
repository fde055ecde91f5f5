// Break it: predict, switch a bug on, see what the numbers do.
import { Engine } from './engine.js';
import { bytesText, timeText, htmlElement } from './draw.js';
import { DEFAULTS, engineSettings } from './settings.js';
import { filmOf } from './film.js';
import { SWITCHES, NUMBERS } from './switches.js';

const STEPS = 30;
const UNKNOWN = 'error';

export class BreakIt {
  constructor(diffs) {
    this.engine = new Engine();
    this.diffs = diffs;
    this.view = (id) => document.getElementById(id);
    this.intact = new Map();  // measured once for each preset
    this.items = SWITCHES.map((bug) => {
      const button = htmlElement('button', { type: 'button', textContent: bug.title });
      button.onclick = () => this.choose(bug);
      return button;
    });
    this.view('bugs').replaceChildren(
      ...this.items.map((button) => htmlElement('li', {}, button)));
    this.view('break-go').onclick = () => this.run();
    this.choose(SWITCHES[0]);
  }

  choose(bug) {
    this.bug = bug;
    this.items.forEach((button, i) =>
      button.setAttribute('aria-pressed', String(SWITCHES[i] === bug)));
    const { description, file, old, new: now } = this.diffs[bug.name];
    const lines = (text, sign) => text.trimEnd().split('\n').map((line) => `${sign}${line}`);
    this.view('bug-title').textContent = bug.title;
    this.view('bug-text').textContent = description;
    this.view('bug-diff').textContent =
      [file, ...lines(old, '- '), ...lines(now, '+ ')].join('\n');
    this.view('bug-why').textContent = '';
    this.show(null, null);
  }

  // One row a number. Before the run, one ticks those that one expects to change.
  show(intact, broken) {
    const rows = Object.entries(NUMBERS).map(([key, name]) => {
      const id = `expect-${key}`;
      const box = htmlElement('input', { type: 'checkbox', id, disabled: broken !== null });
      box.checked = broken !== null && this.view(id).checked;
      const label = htmlElement('label', { textContent: name, htmlFor: id });
      const cells = [htmlElement('td', {}, box), htmlElement('td', {}, label)];
      const row = htmlElement('tr', {}, ...cells);
      for (const values of [intact, broken]) {
        row.append(htmlElement('td', { className: 'number', textContent: values ? values[key] : '' }));
      }
      const changed = broken !== null && intact[key] !== broken[key];
      row.className = changed ? 'changed' : '';
      row.dataset.key = key;
      const right = changed === box.checked ? 'as you said' : 'a surprise';
      row.append(htmlElement('td',
        { textContent: broken ? `${changed ? 'changed' : 'the same'}, ${right}` : '' }));
      return row;
    });
    this.view('numbers').replaceChildren(...rows);
  }

  // All numbers as they are shown.
  async measure(settings, broken) {
    const none = Object.fromEntries(Object.keys(NUMBERS).map((key) => [key, UNKNOWN]));
    try {
      const film = filmOf(await this.engine.ask({ do: 'film', settings }, broken));
      await this.engine.ask({ do: 'train', settings }, broken);
      const { losses } = await this.engine.ask({ do: 'steps', n: STEPS }, broken);
      const [rank] = film.ranks;
      return {
        step: timeText(rank.seconds), peak: bytesText(rank.totals[rank.peak]),
        reserved: bytesText(rank.ledger[3][0]), gathers: String(rank.traffic.all_gathers),
        sent: bytesText(rank.traffic.bytes_sent), loss2: film.losses[1].toFixed(6),
        norm: film.grad_norm.toFixed(4), equal: new Set(film.weights).size === 1 ? 'yes' : 'no',
        loss30: losses.at(-1).toFixed(4),
      };
    } catch (error) {
      return { ...none, message: error.message };
    }
  }

  async run() {
    if (this.busy) return;
    this.busy = true;
    const { bug } = this;
    this.view('bug-why').textContent = 'The engine trains twice, intact and broken ...';
    const settings = engineSettings({ ...DEFAULTS, ...bug.preset });
    const preset = JSON.stringify(settings);
    if (!this.intact.has(preset)) this.intact.set(preset, await this.measure(settings, ''));
    const broken = await this.measure(settings, bug.name);
    this.busy = false;
    if (bug !== this.bug) return;
    this.show(this.intact.get(preset), broken);
    this.view('bug-why').textContent =
      `${broken.message ? `The engine says: ${broken.message}. ` : ''}${bug.why}`;
  }
}
