// A film as the page reads it: events with their spans and times, and the state of each unit.
import { shortName } from './draw.js';

export const LANES = ['computation', 'all-gather', 'reduction', 'waiting'];
const ANNOUNCED = /^(U|u|R|r|F|RS|AR)\.(.*)$/;

export const spanOf = ([lane, name, bytes, begin, end, waitsFor]) => {
  const [, pass, unit] = /^(forward |backward )?(.*)$/.exec(name);
  return { lane, name, pass: (pass || '').trim(), unit, bytes, begin, end, waitsFor };
};

const eventOf = ([text, span, sample], rank) => {
  const [, verb, unit] = ANNOUNCED.exec(text) || [null, '', ''];
  const traced = span ? rank.spans[span - 1] : null;
  return {
    verb, sample, span: traced, unit: unit || (traced ? traced.unit : ''),
    at: rank.samples[sample].at,
  };
};

const rankOf = (raw) => {
  const rank = { ...raw, spans: raw.spans.map(spanOf) };
  rank.samples = raw.samples.map(([at, ...memory]) => ({ at, memory }));
  rank.times = rank.samples.map((s) => s.at);
  rank.events = raw.events.map((e) => eventOf(e, rank));
  rank.eventTimes = rank.events.map((e) => e.at);
  rank.totals = rank.samples.map((s) => s.memory.reduce((a, b) => a + b, 0));
  rank.peak = rank.totals.indexOf(Math.max(...rank.totals));
  return rank;
};

export const filmOf = (raw) => {
  const ranks = raw.ranks.map(rankOf);
  return {
    ...raw, ranks,
    units: raw.units.map((u) => ({ ...u, short: shortName(u.name) })),
    seconds: Math.max(...ranks.map((r) => Math.max(r.seconds, ...r.spans.map((s) => s.end)))),
    most: Math.max(...ranks.map((r) => r.totals[r.peak])),
  };
};

// Of each unit on a rank after its event `index`, at time `at`: shard, gather, whole or reduce.
export const unitStates = (film, rank, index, at) => {
  const states = new Map();
  for (const unit of film.units) {
    const first = rank.events.find((e) => e.unit === unit.name && /^[Uu]$/.test(e.verb));
    states.set(unit.name, first && first.verb === 'U' ? 'shard' : 'whole');
  }
  const reducing = new Set();
  for (const event of rank.events.slice(0, index + 1)) {
    if (event.verb === 'U') states.set(event.unit, event.span.end > at ? 'gather' : 'whole');
    if (event.verb === 'u' && states.get(event.unit) === 'shard') states.set(event.unit, 'whole');
    if (event.verb === 'R') states.set(event.unit, 'shard');
    if (/^(RS|AR)$/.test(event.verb) && event.span.end > at) reducing.add(event.unit);
  }
  for (const unit of reducing) states.set(unit, 'reduce');
  return states;
};
