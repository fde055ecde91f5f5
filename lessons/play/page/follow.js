// Follow one number: one element of a parameter through the step, on every rank.
import { htmlElement, timeText, lastAtMost } from './draw.js';
import { engineSettings } from './settings.js';
import { filmOf } from './film.js';
import { describe } from './words.js';

// As engine/probe.h orders them.
const PLACES = [
  { name: 'whole', key: 'unsharded-parameters' }, { name: 'shard', key: 'parameter-shards' },
  { name: 'gradient', key: 'unsharded-gradients' }, { name: 'gradient shard', key: 'gradient-shards' },
  { name: 'Adam m', key: 'optimizer' }, { name: 'Adam v', key: 'optimizer' },
];
const FIRST = 'transformer.h.1.mlp.c_fc.weight';

const valueText = (value) => (value === 0 ? '0' : value.toPrecision(5));

// The moments at which any rank's row changes, with all ranks' rows then.
export const momentsOf = (film) => {
  const samples = new Set(film.ranks.flatMap((rank) => rank.life.map(([sample]) => sample)));
  return [...samples].sort((a, b) => a - b).map((sample) => ({
    sample,
    rows: film.ranks.map(({ life }) => life[lastAtMost(life.map(([at]) => at), sample)].slice(1)),
  }));
};

export class Follow {
  constructor(engine, settings, list) {
    this.engine = engine;
    this.settings = settings;  // a function
    this.list = list;  // whose links to the source serve here, too
    this.view = (id) => document.getElementById(id);
    this.view('follow-parameter').onchange = () => this.run();
    this.view('follow-element').onchange = () => this.run();
  }

  // The names of a film's parameters, for the next one.
  offer(film) {
    const select = this.view('follow-parameter');
    const chosen = select.value || FIRST;
    select.replaceChildren(...film.parameters.map(([name, numel]) =>
      htmlElement('option', { value: name, textContent: `${name} (${numel})` })));
    const known = film.parameters.some(([name]) => name === chosen);
    select.value = known ? chosen : film.parameters[0][0];
  }

  async run() {
    const mine = (this.asked = (this.asked || 0) + 1);
    const parameter = this.view('follow-parameter').value;
    const element = Math.max(0, Math.round(Number(this.view('follow-element').value)) || 0);
    const settings = { ...engineSettings(this.settings()), parameter, element };
    try {
      const film = filmOf(await this.engine.ask({ do: 'film', settings }));
      if (mine !== this.asked) return;
      this.show(film, parameter);
      this.view('follow-state').textContent = `element ${element} of ${parameter}`;
    } catch (error) {
      if (mine === this.asked) this.view('follow-state').textContent = error.message;
    }
  }

  show(film, parameter) {
    const [rank] = film.ranks;
    const unit = film.units.find(({ name }) => parameter.startsWith(`${name}.`))?.name || 'root';
    const head = htmlElement('tr', {}, ...['what happens', ...film.ranks.map((_, r) => `rank ${r}`)]
      .map((textContent) => htmlElement('th', { textContent })));
    let before = null;
    const rows = momentsOf(film).map(({ sample, rows: values }) => {
      const cells = values.map((value, r) => this.cell(value, before && before[r]));
      before = values;
      return htmlElement('tr', {}, this.cause(rank, sample, unit, values), ...cells);
    });
    this.view('life').replaceChildren(head, ...rows);
  }

  // The event at this moment in words; of several, the last that is about the parameter's unit.
  cause(rank, sample, unit, values) {
    const cell = htmlElement('td', {},
      htmlElement('span', { className: 'time', textContent: timeText(rank.times[sample]) }));
    const past = rank.events.filter((event) => event.sample <= sample);
    const event = past.findLast((e) => e.unit === unit && e.at === past.at(-1).at) || past.at(-1);
    if (sample === 0) {
      const stay = values.some(([whole]) => whole !== null);
      cell.append(`The step begins. Between steps ${stay ? 'whole parameters stay here' : 'only the shards are there'}. ` +
        'The gradient still has the value of the step before, which does not count any more.');
    } else if (sample === rank.samples.length - 1) {
      const updates = values.filter(([, , , , m]) => m !== null).length;
      cell.append(`AdamW has updated ${updates === 1 ? 'the shard, on its rank alone' : `it, on ${updates} ranks alike`}.`);
    } else {
      const said = describe(event, rank);
      cell.append(`Each rank ${said.text}`, htmlElement('br'), this.list.sourceLink(said));
    }
    return cell;
  }

  cell(values, before) {
    const lines = PLACES.map(({ name, key }, i) => {
      if (values[i] === null) return null;
      const changed = before && values[i] !== before[i];
      return htmlElement('div', { className: changed ? 'fresh' : '' },
        htmlElement('i', { className: key }), `${name} `,
        htmlElement('b', { textContent: valueText(values[i]) }));
    });
    return htmlElement('td', {}, ...lines.filter(Boolean));
  }
}
