// Three questions that one has before this page, answered from the film.
import { CLASSES, bytesText, timeText, shortName } from './draw.js';

const isOff = (settings) => settings.backward_prefetch === 'none' && settings.forward_prefetch === 0;

const gatherText = (rank, r) => {
  const spans = rank.spans.filter((span) => span.lane === 1 && span.bytes > 0);
  const why = 'A unit computes with all of its parameters, and a rank owns only its shard. A gather ' +
    'brings it the parts of the others. ';
  if (spans.length === 0) return `${why}Here there is none: each rank has all parameters already.`;
  const discards = rank.events.filter(({ verb }) => verb === 'R').length;
  return `${why}In this step, ${spans.length} gathers bring rank ${r} ` +
    `${bytesText(spans.reduce((sum, { bytes }) => sum + bytes, 0))}. ` +
    (discards ? `It discards them after use, ${discards} times, and uses their memory again.` : '');
};

// What computation does at a time: the innermost span.
const placeAt = (rank, at) => {
  const span = rank.spans.findLast((s) => s.lane === 0 && s.begin <= at && at <= s.end);
  if (!span) return 'between two units';
  if (span.name === 'optimizer') return 'in the optimizer';
  return `in ${span.pass} of ${span.unit === 'root' ? 'the root' : shortName(span.unit)}`;
};

const peakText = (rank, r) => {
  const { memory, at } = rank.samples[rank.peak];
  const parts = CLASSES.map(({ name }, c) => ({ name, bytes: memory[c] }))
    .sort((a, b) => b.bytes - a.bytes).slice(0, 3);
  const place = placeAt(rank, at);
  const why = place.startsWith('in backward')
    ? 'Forward has stored activations, unit by unit; backward has only begun to free them, and needs ' +
      'whole gradients beside whole parameters. ' : '';
  return `Rank ${r} holds most, ${bytesText(rank.totals[rank.peak])}, at ${timeText(at)}, ${place}. ${why}` +
    `The largest parts then: ${parts.map((p) => `${p.name} ${bytesText(p.bytes)}`).join(', ')}.`;
};

const prefetchText = (rank, settings) => {
  const takes = rank.spans.some((span) => span.lane === 1 && span.bytes > 0) ? rank.busy[1] : 0;
  const [, waits] = rank.exposed;
  if (takes === 0) return 'Nothing: no parameters are gathered here.';
  const how = isOff(settings)
    ? 'Prefetch is off: a unit asks for its parameters when its turn has come, and then stands still. '
    : 'A unit asks for the parameters of the next one before it computes itself, so that they are ' +
      'sent meanwhile. ';
  const discards = rank.events.some(({ verb }) => verb === 'R');
  const price = isOff(settings) || !discards ? '' : ' The price is memory: more units are whole at a time.';
  return `${how}Gathers take ${timeText(takes)} here, and computation waits for ${timeText(waits)} of it.${price}`;
};

// `set(name, value)` changes a setting.
export const showAnswers = (view, film, r, settings, set) => {
  const rank = film.ranks[r];
  view('answer-gather').textContent = gatherText(rank, r);
  view('answer-peak').textContent = peakText(rank, r);
  view('answer-prefetch').textContent = prefetchText(rank, settings);
  const off = isOff(settings);
  view('no-prefetch').textContent = off ? 'Switch prefetch on' : 'Switch prefetch off';
  view('no-prefetch').onclick = () => set({
    backward_prefetch: off ? 'pre' : 'none', forward_prefetch: off ? 1 : 0 });
};
