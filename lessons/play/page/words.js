// Each event in plain words, with the lines of source that do it and the lesson that teaches it.
import { bytesText, timeText, shortName } from './draw.js';

const LESSONS = {
  11: '11_zero_3_units', 13: '13_overlap', 14: '14_two_slots', 16: '16_accumulate_and_clip',
  9: '09_zero_1_optimizer', 10: '10_zero_2_gradients', 3: '03_the_tape', 5: '05_replicate',
};

const quoted = (unit) => (unit === 'root' ? 'the root' : shortName(unit));

const SAY = {
  gather: (e) => `gathers ${quoted(e.unit)}, of which it owns only a part: the other ranks send ` +
    `${bytesText(e.span.bytes)} into a slot, in ${timeText(e.span.end - e.span.begin)}.`,
  found: (e) => `asks for ${quoted(e.unit)}. Its whole parameters are there or on their way, so ` +
    'nothing is sent.',
  forward: (e) => `computes forward of ${quoted(e.unit)} with its whole parameters.`,
  forwardEnd: (e) => `has finished forward of ${quoted(e.unit)}.`,
  backward: (e) => `computes backward of ${quoted(e.unit)}: the gradients of its parameters and of ` +
    'its input.',
  discard: (e) => `discards the whole parameters of ${quoted(e.unit)}. Its shard stays, and the ` +
    'slot is free.',
  keep: (e) => `keeps ${quoted(e.unit)} whole: it is needed again, or it is stored whole.`,
  scatter: (e) => `reduce-scatters the gradients of ${quoted(e.unit)}: ranks send ` +
    `${bytesText(e.span.bytes)} each, and each keeps the sum for its own shard.`,
  reduce: (e) => `all-reduces the gradients of ${quoted(e.unit)}: every rank gets the whole sum.`,
  wait: (e) => {
    const time = e.span.end - e.span.begin;
    if (time < 1e-9) return 'would wait for a collective, but it is done: it was hidden.';
    return `stands still for ${timeText(time)}, until ${e.waited} is done. Nothing hides this time.`;
  },
  optimizer: () => 'computes the norm of all gradients from the shards, and AdamW updates its own ' +
    'shard.',
};

const KINDS = {
  gather: { source: 'gather', lesson: 11 }, found: { source: 'unshard', lesson: 13 },
  forward: { source: 'attach', lesson: 11 }, forwardEnd: { source: 'attach', lesson: 11 },
  backward: { source: 'attach', lesson: 3 }, discard: { source: 'reshard', lesson: 11 },
  keep: { source: 'reshard', lesson: 11 }, scatter: { source: 'reduce_gradients', lesson: 10 },
  reduce: { source: 'reduce_gradients', lesson: 5 }, wait: { source: 'wait', lesson: 13 },
  optimizer: { source: 'optimizer_step', lesson: 9 },
};

const BY_VERB = { U: 'gather', u: 'found', R: 'discard', r: 'keep', F: 'forwardEnd',
  RS: 'scatter', AR: 'reduce' };

const kindOf = (event) => {
  if (event.verb) return BY_VERB[event.verb];
  if (event.span.lane === 3) return 'wait';
  if (event.span.name === 'optimizer') return 'optimizer';
  return event.span.pass || 'optimizer';
};

const OF_LANE = ['computation', 'the all-gather', 'the reduction', 'waiting'];

// { kind, text, source, lesson } of an event of a rank.
export const describe = (event, rank) => {
  const kind = kindOf(event);
  const awaited = event.span && event.span.waitsFor ? rank.spans[event.span.waitsFor - 1] : null;
  const waited = awaited ? `${OF_LANE[awaited.lane]} of ${quoted(awaited.unit)}` : 'a collective';
  const { source, lesson } = KINDS[kind];
  return { kind, text: SAY[kind]({ ...event, waited }), source, lesson,
    lessonPath: LESSONS[lesson] };
};
