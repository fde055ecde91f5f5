// The form, and what it says to the engine. A link carries it behind the #.
import { htmlElement, bytesText } from './draw.js';

const range = (name, label, min, max, step = 1) => ({ name, label, min, max, step });
const choice = (name, label, ...options) => ({ name, label, options });
// The slider's value is the power of ten.
const power = (name, label, min, max, unit) => ({ name, label, min, max, step: 0.05, unit });

export const FIELDS = {
  Ranks: [range('ranks', 'ranks W', 1, 8)],
  Model: [range('n_layer', 'layers', 1, 12), range('n_embd', 'width', 16, 128, 16)],
  Batch: [range('rows', 'rows a rank', 1, 4), range('micro', 'micro-batches', 1, 4)],
  Sharding: [
    choice('strategy', 'strategy', 'no_shard', 'shard_optimizer', 'shard_gradients',
      'shard_grad_op', 'full_shard', 'hybrid_shard', 'hybrid_shard_optimizer'),
    choice('layout', 'layout', 'flat', 'per_parameter'),
    choice('backward_prefetch', 'backward prefetch', 'none', 'pre', 'post'),
    range('forward_prefetch', 'forward prefetch', 0, 3),
    choice('pool', 'slots', 'shared', 'one a unit'),
    choice('no_sync', 'reduce in micro-batch', 'each', 'last'),
  ],
  Numbers: [
    choice('param_dtype', 'gathered as', 'float32', 'bfloat16'),
    choice('reduce_dtype', 'reduced as', 'float32', 'bfloat16'),
    choice('recompute', 'recompute', 'off', 'on'),
  ],
  Machine: [
    power('link', 'link', 7, 11, 'B/s'),
    power('arithmetic', 'arithmetic', 9, 12, 'FLOP/s'),
  ],
};

// Of the scene at scale: numbers a GPU, as `nanofsdp plan` has them.
export const SCALE_FIELDS = {
  Model: [choice('model', 'model', 'llama-3-8b', 'llama-3-70b', 'llama-3-405b', 'llama-2-7b',
    'llama-2-13b', 'llama-2-70b', 'llama-3-1b', 'gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl')],
  Machine: [
    choice('machine', 'GPU', 'a100-80', 'h100', 'h200'),
    choice('gpus', 'GPUs', '8', '16', '32', '64', '128', '256', '512', '1024', '2048', '4096'),
    choice('network', 'GB/s from node to node, a GPU', 'its own', '1', '3', '6', '12', '25', '50', '100'),
  ],
  Batch: [
    range('gpu_rows', 'rows a GPU', 1, 16),
    choice('row_tokens', 'tokens a row', '512', '1024', '2048', '4096', '8192'),
    range('gpu_micro', 'micro-batches', 1, 4),
  ],
  Sharding: [
    choice('sharding', 'strategy', 'no_shard', 'shard_optimizer', 'shard_gradients',
      'shard_grad_op', 'full_shard', 'hybrid_shard', 'hybrid_shard_optimizer'),
    choice('recomputation', 'recompute', 'none', 'selective', 'block'),
    choice('reduced', 'reduced as', 'float32', 'bfloat16'),
  ],
};

export const DEFAULTS = {
  model: 'llama-3-70b', machine: 'h100', gpus: '1024', network: 'its own', gpu_rows: 1,
  row_tokens: '4096', gpu_micro: 1, sharding: 'full_shard', recomputation: 'block',
  reduced: 'float32',
  ranks: 4, n_layer: 4, n_embd: 64, rows: 2, micro: 1, strategy: 'full_shard', layout: 'flat',
  backward_prefetch: 'pre', forward_prefetch: 1, pool: 'shared', no_sync: 'each',
  param_dtype: 'float32', reduce_dtype: 'float32', recompute: 'off', link: 8.7, arithmetic: 10,
};

const isHybrid = (strategy) => strategy.startsWith('hybrid_shard');

// As the engine wants it (engine/settings.cpp).
export const engineSettings = (s) => ({
  ranks: s.ranks, n_layer: s.n_layer, n_embd: s.n_embd, batch_size: s.rows,
  gradient_accumulation_steps: s.micro * s.ranks, strategy: s.strategy,
  shard_size: isHybrid(s.strategy) && s.ranks % 2 === 0 ? s.ranks / 2 : 0,
  layout: s.layout, backward_prefetch: s.backward_prefetch, forward_prefetch: s.forward_prefetch,
  pool: s.pool === 'shared', no_sync: s.no_sync === 'last',
  param_dtype: s.param_dtype, reduce_dtype: s.reduce_dtype, recompute: s.recompute === 'on',
  link: 10 ** s.link, arithmetic: 10 ** s.arithmetic,
});

// The same as options of `nanofsdp plan`. Groups of hybrid strategies are nodes.
export const planArguments = (s) => [
  `--model=${s.model}`, `--machine=${s.machine}`, `--ranks=${s.gpus}`, `--batch_size=${s.gpu_rows}`,
  `--gradient_accumulation_steps=${s.gpu_micro * s.gpus}`, `--block_size=${s.row_tokens}`,
  `--strategy=${s.sharding}`, `--recompute=${s.recomputation}`, '--param_dtype=bfloat16',
  `--reduce_dtype=${s.reduced}`, ...(isHybrid(s.sharding) ? ['--shard_size=8'] : []),
  ...(s.network === 'its own' ? [] : [`--network_bandwidth=${s.network}e9`]),
];

const fields = () => [FIELDS, SCALE_FIELDS].flatMap((all) => Object.values(all).flat());

// Only what differs from the defaults, and only what the form could have said.
export const fromLink = (hash) => {
  const settings = { ...DEFAULTS };
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  for (const field of fields()) {
    const value = given.get(field.name);
    if (!value) continue;
    if (field.options) {
      if (field.options.includes(value)) settings[field.name] = value;
    } else if (Number.isFinite(Number(value))) {
      const { min, max, step } = field;
      const nearest = min + step * Math.round((Number(value) - min) / step);
      settings[field.name] = Number(Math.min(max, Math.max(min, nearest)).toFixed(2));
    }
  }
  return { settings, scene: ['train', 'follow', 'break', 'scale'].find((s) => s === given.get('scene')) || 'step' };
};

export const toLink = (settings, scene) => {
  const said = new URLSearchParams();
  if (scene !== 'step') said.set('scene', scene);
  for (const [name, value] of Object.entries(settings)) {
    if (value !== DEFAULTS[name]) said.set(name, value);
  }
  return `#${said}`;
};

const valueText = (field, value) => {
  if (!field.unit) return String(value);
  if (field.unit === 'B/s') return `${bytesText(10 ** value)}/s`;
  return `${(10 ** value / 1e9).toPrecision(3)} GFLOP/s`;
};

const inputOf = (field, settings, changed) => {
  const id = `set-${field.name}`;
  if (field.options) {
    const options = field.options.map((o) => htmlElement('option', { value: o, textContent: o }));
    const select = htmlElement('select', { id }, ...options);
    select.value = settings[field.name];
    select.onchange = () => changed(field.name, select.value);
    return [select];
  }
  const { min, max, step } = field;
  const shown = htmlElement('output', { textContent: valueText(field, settings[field.name]) });
  const slider = htmlElement('input', { id, type: 'range', min, max, step });
  slider.value = settings[field.name];
  slider.oninput = () => {
    shown.textContent = valueText(field, Number(slider.value));
    changed(field.name, Number(slider.value));
  };
  return [slider, shown];
};

// Fills the form with these fields. `changed(name, value)` hears of every change.
export const showForm = (form, all, settings, changed) => {
  form.replaceChildren();
  for (const [title, group] of Object.entries(all)) {
    const box = htmlElement('fieldset', {}, htmlElement('legend', { textContent: title }));
    for (const field of group) {
      const label = htmlElement('label', { textContent: field.label });
      label.htmlFor = `set-${field.name}`;
      box.append(htmlElement('div', { className: 'field' }, label,
        ...inputOf(field, settings, changed)));
    }
    form.append(box);
  }
};
