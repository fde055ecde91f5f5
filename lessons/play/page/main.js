// The page: five scenes over one engine.
import { Engine } from './engine.js';
import { engineSettings, fromLink, planArguments, showForm, toLink, DEFAULTS, FIELDS, SCALE_FIELDS } from './settings.js';
import { filmOf } from './film.js';
import { Bars } from './bars.js';
import { Lanes } from './lanes.js';
import { Curve } from './curve.js';
import { EventList, showLegend } from './list.js';
import { Player } from './player.js';
import { showAnswers } from './answers.js';
import { Training } from './train.js';
import { Follow } from './follow.js';
import { BreakIt } from './break.js';
import { Scale } from './scale.js';
import { SWITCHES } from './switches.js';
import { bytesText, timeText, countText, lastAtMost } from './draw.js';

const view = (id) => document.getElementById(id);
const excerpts = JSON.parse(view('excerpts').textContent);
const engine = new Engine();
let { settings, scene } = fromLink(location.hash);
let film = null;
let before = null;  // the figures of the film before
let chosen = 0;
let nowCells = [];

const whenFilmed = (act) => (...words) => { if (film) act(...words); };
const seek = whenFilmed((at) => { player.pause(); player.seek(at); });
const choose = (rank) => { chosen = rank; if (film) showRank(); };
const bars = new Bars(view('bars'), choose);
const lanes = new Lanes(view('lanes'), seek);
const curve = new Curve(view('curve'), seek);
const list = new EventList(view('events'), (index) => { player.pause(); player.go(index); }, excerpts);
const training = new Training(() => settings);
const follow = new Follow(engine, () => settings, list);
const scale = new Scale(engine, () => settings);

// Stepping shows the sample of the event itself: several events may share a moment.
const sampleOf = (rank, index, at) => {
  const event = rank.events[index];
  return event && event.at === at ? event.sample : lastAtMost(rank.times, at);
};

const player = new Player((index, at) => {
  const rank = film.ranks[chosen];
  const event = rank.events[index];
  bars.at(index, at, sampleOf);
  lanes.at(event, at);
  curve.at(at);
  list.at(index, !player.playing && !player.still.matches);
  rank.samples[sampleOf(rank, index, at)].memory.forEach((bytes, c) => {
    nowCells[c].textContent = bytesText(bytes);
  });
  view('play').textContent = player.playing ? 'Pause' : 'Play';
  view('place').textContent =
    `event ${index + 1} of ${rank.events.length}, ${timeText(at)} of ${timeText(film.seconds)}`;
});

const showRank = () => {
  const rank = film.ranks[chosen];
  rank.events.forEach((e) => { e.number = rank.spans.indexOf(e.span); });
  nowCells = showLegend(view('legend'), rank);
  bars.show(film, chosen);
  lanes.show(film, rank);
  curve.show(film, rank);
  list.show(rank, chosen);
  showAnswers(view, film, chosen, settings, (some) => { change(some); showSettings(); });
  document.querySelectorAll('.which').forEach((e) => { e.textContent = `rank ${chosen}`; });
  player.show(film, rank);
};

const showFigures = () => {
  const rank = film.ranks[0];
  const waits = rank.exposed[1] + rank.exposed[2];
  const figures = {
    'a step takes': [rank.seconds, timeText], 'of it computation waits': [waits, timeText],
    'a rank holds at most': [rank.totals[rank.peak], bytesText],
    'a rank sends': [rank.traffic.bytes_sent, bytesText],
  };
  const rows = Object.entries(figures).map(([name, [value, text]]) => {
    const was = before && before[name] !== value ? `, before: ${text(before[name])}` : '';
    return `<div><dt>${name}</dt><dd>${text(value)}<small>${was}</small></dd></div>`;
  });
  rows.push(`<div><dt>loss of step 2</dt><dd>${film.losses[1].toFixed(6)}</dd></div>`);
  const equal = new Set(film.weights).size === 1;
  rows.push(`<div><dt>weights after it</dt><dd><code>${film.weights[0]}</code><small> ` +
    `${equal ? 'on every rank' : 'NOT EQUAL ON ALL RANKS'}</small></dd></div>`);
  view('figures').innerHTML = rows.join('');
  before = Object.fromEntries(Object.entries(figures).map(([name, [value]]) => [name, value]));
};

let asked = 0;
const refilm = async () => {
  const mine = ++asked;
  view('state').textContent = 'the engine runs ...';
  try {
    const raw = await engine.ask({ do: 'film', settings: engineSettings(settings) });
    if (mine !== asked) return;
    film = filmOf(raw);
    chosen = Math.min(chosen, film.ranks.length - 1);
    showFigures();
    follow.offer(film);
    if (scene === 'follow') follow.run();
    showRank();
    const parameters = film.units.reduce((sum, unit) => sum + unit.numel, 0);
    view('state').textContent = `${countText(parameters)} parameters in ${film.units.length} units`;
    document.body.dataset.films = Number(document.body.dataset.films || 0) + 1;
  } catch (error) {
    if (mine === asked) view('state').textContent = error.message;
  }
};

let soon = 0;
const change = (some) => {
  settings = { ...settings, ...some };
  history.replaceState(null, '', toLink(settings, scene));
  const ofScale = scene === 'scale';  // when the timer ends, there may be another scene
  clearTimeout(soon);
  soon = setTimeout(() => {
    if (ofScale) return scale.run();
    training.restart();
    refilm();
  }, 120);
};

const showSettings = () => showForm(view('settings'), scene === 'scale' ? SCALE_FIELDS : FIELDS, settings,
  (name, value) => change({ [name]: value }));

const SCENES = ['step', 'train', 'follow', 'break', 'scale'];

const showScene = (name) => {
  scene = name;
  history.replaceState(null, '', toLink(settings, scene));
  for (const each of SCENES) {
    view(`scene-${each}`).hidden = each !== name;
    view(`tab-${each}`).setAttribute('aria-selected', String(each === name));
  }
  if (name === 'train') training.draw();
  if (name === 'step' && film) showRank();
  if (name === 'follow' && film) follow.run();
  if (name === 'scale') scale.run();
  if (name !== 'step') player.pause();
  showSettings();
  view('state').hidden = name === 'scale';
  view('settings-box').hidden = name === 'break';
  document.querySelector('main').classList.toggle('wide', name === 'break');
};

const faster = (by) => {
  const speed = view('speed');
  speed.value = Number(speed.value) + by;
  speed.oninput();
};

const KEYS = {
  ' ': () => player.toggle(), ArrowRight: () => player.step(1), ArrowLeft: () => player.step(-1),
  Home: () => { player.pause(); player.go(0); }, End: () => player.end(),
  '+': () => faster(1), '-': () => faster(-1),
};

const start = () => {
  view('play').onclick = whenFilmed(() => player.toggle());
  view('step').onclick = whenFilmed(() => player.step(1));
  view('back').onclick = whenFilmed(() => player.step(-1));
  view('speed').oninput = () => {
    player.speed = 2 ** Number(view('speed').value);
    view('speed-text').textContent = `${player.speed} ×`;
  };
  for (const each of SCENES) view(`tab-${each}`).onclick = () => showScene(each);
  document.addEventListener('keydown', (event) => {
    const busy = event.target.closest('input, select, button, summary, a, dialog');
    if (scene !== 'step' || !film || event.ctrlKey || event.metaKey || event.altKey) return;
    if (busy && (event.key === ' ' || event.target.closest('input, select, dialog'))) return;
    if (/^[1-8]$/.test(event.key) && Number(event.key) <= film.ranks.length) {
      choose(Number(event.key) - 1);
    } else if (KEYS[event.key]) {
      KEYS[event.key]();
      event.preventDefault();
    }
  });
  new BreakIt(JSON.parse(view('diffs').textContent));
  new ResizeObserver(() => {
    if (film && scene === 'step') showRank();
    if (scene === 'train') training.draw();
    if (scene === 'scale') scale.draw();
  }).observe(document.querySelector('main'));
  window.play = { engine, player, scale, arguments: (s) => planArguments({ ...DEFAULTS, ...s }), film: () => film, switches: SWITCHES };  // for the console, and for tests
  if (window.innerWidth < 900) view('settings-box').open = false;
  const followLink = () => {
    ({ settings, scene } = fromLink(location.hash));
    training.restart();
    showScene(scene);
    refilm();
  };
  window.onhashchange = followLink;  // a link of a lesson, typed into the page that is open
  followLink();
};

start();
