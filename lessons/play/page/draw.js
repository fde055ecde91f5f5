// What every picture needs: SVG elements, numbers with units, the classes of memory.

export const svgElement = (name, attributes = {}, parent = null) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
};

export const htmlElement = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

const separated = (n) => Math.round(n).toLocaleString('en-US');

export const bytesText = (n) => {
  if (n < 10000) return `${separated(n)} B`;
  if (n < 0.99995e6) return `${(n / 1e3).toFixed(1)} kB`;
  if (n < 0.99995e9) return `${(n / 1e6).toFixed(2)} MB`;
  return `${(n / 1e9).toFixed(1)} GB`;
};

export const timeText = (seconds) => {
  if (seconds < 9.995e-6) return `${Number((seconds * 1e6).toFixed(2))} µs`;
  if (seconds < 0.9995e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(2)} ms`;
  return `${seconds.toFixed(2)} s`;
};

export const countText = separated;

// In the order of the engine's ledger, and how they are drawn: solid is owned, hatched is borrowed.
export const CLASSES = [
  { key: 'parameter-shards', name: 'parameter shard', letter: 'P' },
  { key: 'gradient-shards', name: 'gradient shard', letter: 'G' },
  { key: 'optimizer', name: 'optimizer state', letter: 'O' },
  { key: 'unsharded-parameters', name: 'whole parameters', letter: 'p' },
  { key: 'unsharded-gradients', name: 'whole gradients', letter: 'g' },
  { key: 'activations', name: 'activations', letter: 'A' },
  { key: 'communication', name: 'communication', letter: 'c' },
];

// From the bottom of a bar upwards: what stays, then what comes and goes.
export const STACK = [2, 0, 1, 3, 4, 5, 6];

// "transformer.h.3" as "h.3".
export const shortName = (unit) => unit.replace('transformer.', '');

// A round step for an axis that is to have some five ticks.
export const tickStep = (most) => {
  const power = 10 ** Math.floor(Math.log10(most / 5 || 1));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => most / step <= 6) || power;
};

// The last index whose value is at most `x`, of an ascending row; at least 0.
export const lastAtMost = (row, x) => {
  let low = 0;
  let high = row.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (row[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
};
