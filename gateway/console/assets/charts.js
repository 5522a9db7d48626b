// Charts over uPlot: a figure with its latest value beside the title, a legend that tells values
// under the cursor, and a text alternative. Drawn on canvases, in the theme's colours.

import { fill, h, say } from './dom.js';
import { clock } from './format.js';

const font = 'ui-sans-serif, system-ui, "Liberation Sans", sans-serif';
const height = 168; // CSS pixels of a chart
const window10 = 600; // seconds that are shown
const axisWidth = 46;
export const gap = 12; // seconds between two samples, above which nothing is known of what lies between
const apart = 13; // between two of those names

/** A colour of the theme, by its custom property. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * What a chart shows.
 * @typedef {object} Line
 * @property {string} label
 * @property {string} colour custom property, e.g. 'draft'
 * @property {(s: object) => number|null|undefined} value of a sample
 * @property {number[]} [dash]
 * @property {boolean} [fill] the area below it
 * @property {boolean} [quiet] drawn thin, and not in the legend
 *
 * @typedef {object} Spec
 * @property {string} test hook
 * @property {string} title
 * @property {string} about one sentence below the title
 * @property {(v: number) => string} tell a value
 * @property {(samples: object[]) => Line[]} lines
 * @property {(s: object) => number|null} headline latest value beside the title
 * @property {string} headlineName what that is, for the text alternative
 * @property {'linear'|'log'|'share'} [scale]
 * @property {boolean} [stacked]
 * @property {(s: object) => {label: string, value: number, colour: string}[]} [marks] lines across
 * @property {(s: object|undefined) => string} empty what is missing where nothing is drawn
 */

/** A chart of the live samples. update redraws it; destroy ends it. */
export class Chart {
  /** @param {Spec} spec */
  constructor(spec) {
    this.spec = spec;
    this.shape = '';
    this.cursor = null;
    this.now = h('span.now');
    this.when = h('span.when');
    this.legend = h('ul.legend');
    this.plot = h('div.plot', { role: 'img' });
    this.none = h('p.none', { hidden: true });
    this.figure = h(
      'figure.chart',
      { test: spec.test, data: { points: 0, last: '' } },
      h('figcaption', null, h('h3', null, spec.title), this.when, this.now),
      h('p.about', null, spec.about),
      this.plot,
      this.none,
      this.legend,
    );
    this.sized = new ResizeObserver(() => this.resize());
    this.sized.observe(this.plot);
  }

  destroy() {
    this.sized.disconnect();
    this.u?.destroy();
  }

  /** Draws anew, e.g. in another theme. */
  restyle(samples) {
    this.shape = '';
    this.update(samples);
  }

  /** @param {object[]} samples oldest first */
  update(samples) {
    const lines = this.spec.lines(samples),
      last = samples[samples.length - 1];
    const broken = withGaps(samples);
    const columns = lines.map((l) => broken.map((s) => (s.gap ? null : this.fits(l.value(s)))));
    const drawn = columns.some((c) => c.some((v) => v !== null));
    this.samples = broken;
    this.lines = lines;
    this.columns = columns;
    this.plot.hidden = !drawn;
    this.none.hidden = drawn;
    if (!drawn) say(this.none, samples.length ? this.spec.empty(last) : 'Waiting for the first sample.');
    this.describe(last, drawn ? samples.length : 0);
    if (drawn) this.draw();
  }

  /** What can be drawn of a value: on a log scale, only what is above 0. */
  fits(v) {
    return typeof v !== 'number' || !Number.isFinite(v) || (this.spec.scale === 'log' && v <= 0) ? null : v;
  }

  describe(last, points) {
    const v = last && this.spec.headline(last),
      known = typeof v === 'number' && Number.isFinite(v);
    this.figure.dataset.points = points;
    this.figure.dataset.last = known ? v : '';
    const marks = last && this.spec.marks ? this.spec.marks(last) : [];
    if (this.spec.marks) this.figure.dataset.lines = marks.map((m) => `${m.label}=${m.value}`).join(' ');
    say(this.now, known ? this.spec.tell(v) : '–');
    const lines = marks.map((m) => `, line ${m.label} at ${this.spec.tell(m.value)}`).join('');
    this.plot.setAttribute(
      'aria-label',
      `${this.spec.title}, last ten minutes: ${this.spec.headlineName} now ${known ? this.spec.tell(v) : 'not known'}${lines}.`,
    );
  }

  draw() {
    const shape = JSON.stringify([this.lines.map((l) => [l.label, l.colour]), this.gutter()]);
    const data = [this.samples.map((s) => s.t), ...(this.spec.stacked ? stack(this.columns) : this.columns)];
    if (shape !== this.shape || !this.u) {
      this.u?.destroy();
      this.shape = shape;
      this.u = new window.uPlot(this.options(), data, this.plot);
      this.listLines();
    } else {
      this.u.setData(data);
    }
    this.tellValues();
  }

  options() {
    const grid = { stroke: this.spec.stacked ? `${colour('muted')}26` : colour('grid'), width: 1 };
    const axis = { stroke: colour('muted'), font: `11px ${font}`, grid, ticks: { show: false } };
    return {
      width: Math.max(this.plot.clientWidth, 120),
      height,
      padding: [8, this.gutter(), 0, 0],
      legend: { show: false },
      drawOrder: this.spec.stacked ? ['series', 'axes'] : ['axes', 'series'],
      cursor: { sync: { key: 'foregate' }, y: false, drag: { x: false, y: false }, points: { show: !this.spec.stacked, size: 6 } },
      scales: { x: { time: true, range: (u, min, max) => [max - window10, max] }, y: this.scale() },
      axes: [
        { ...axis, size: 24, space: 70, values: (u, ticks) => ticks.map((t) => clock(new Date(t * 1000)).slice(0, 5)) },
        {
          ...axis,
          size: axisWidth,
          space: 30,
          ...(this.spec.scale === 'log' && { splits: logSplits, filter: (u, splits) => splits }),
          values: (u, ticks) => ticks.map((v) => (v == null ? '' : this.spec.tell(v).replace('\u00a0', '\u202f'))),
        },
      ],
      series: [{}, ...this.lines.map((l) => this.series(l))],
      hooks: {
        draw: [
          (u) => {
            const last = this.samples?.[this.samples.length - 1];
            if (this.spec.marks && last) drawMarks(u, this.spec.marks(last), this.spec.tell);
          },
        ],
        setCursor: [
          (u) => {
            this.cursor = u.cursor.idx ?? null;
            this.tellValues();
          },
        ],
      },
    };
  }

  /** Room on the right for the names of lines across. */
  gutter() {
    const last = this.samples[this.samples.length - 1];
    return this.spec.marks ? gutterOf(this.spec.marks(last), this.spec.tell) : 8;
  }

  scale() {
    if (this.spec.scale === 'share') return { range: [0, 1.02] };
    if (this.spec.scale === 'log')
      return { distr: 3, range: (u, min, max) => (min == null ? [0.01, 1] : [decade(min, Math.floor), decade(max, Math.ceil)]) };
    return { range: (u, min, max) => [Math.min(0, min ?? 0), max > 0 ? max * 1.12 : 1] };
  }

  series(line) {
    const ink = colour(line.colour),
      stacked = this.spec.stacked;
    return {
      stroke: ink,
      width: stacked || line.quiet ? 1 : 1.75,
      dash: line.dash,
      spanGaps: false,
      points: stacked || line.quiet ? { show: false } : { size: 4, fill: ink }, // drawn only where there is room between them
      fill: stacked ? mixed(ink, colour('panel'), 0.62) : line.fill ? mixed(ink, colour('panel'), 0.14) : undefined,
    };
  }

  /** The legend's entries; their values follow. */
  listLines() {
    const shown = this.lines.filter((l) => !l.quiet),
      more = this.lines.length - shown.length;
    this.values = shown.map((l) => [this.lines.indexOf(l), h('b')]);
    fill(
      this.legend,
      shown.map((l, i) => h('li', null, swatch(l), h('span', null, l.label), this.values[i][1])),
      more > 0 && h('li', null, `and ${more} more`),
    );
  }

  /** Values under the cursor, or the latest. */
  tellValues() {
    if (!this.values || !this.columns) return;
    const at = this.cursor ?? this.samples.length - 1,
      s = this.samples[at];
    say(this.when, this.cursor === null || !s ? '' : `at ${clock(new Date(s.t * 1000))}`);
    this.values.forEach(([i, el]) => {
      const v = this.columns[i]?.[at];
      say(el, v === null || v === undefined ? '–' : this.spec.tell(v));
    });
  }

  resize() {
    const width = this.plot.clientWidth;
    if (this.u && width > 0 && width !== this.u.width) this.u.setSize({ width, height });
  }
}

/** CSS pixels that the names of lines across take. */
function gutterOf(marks, tell) {
  const ctx = document.createElement('canvas').getContext('2d');
  ctx.font = `11px ${font}`;
  return Math.max(8, ...marks.map((m) => Math.ceil(ctx.measureText(`${m.label} ${tell(m.value)}`).width) + 16));
}

/**
 * Draws lines across, such as those above which requests are shed, with their names in the gutter.
 * @param {{label: string, value: number, colour: string}[]} marks
 */
function drawMarks(u, marks, tell) {
  const { ctx, bbox } = u,
    dpr = devicePixelRatio || 1,
    right = bbox.left + bbox.width;
  ctx.save();
  ctx.font = `${11 * dpr}px ${font}`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.lineWidth = dpr;
  let highest = -Infinity;
  for (const m of marks.toSorted((a, b) => b.value - a.value)) {
    const y = Math.round(u.valToPos(m.value, 'y', true)),
      text = Math.max(y, highest + apart * dpr);
    highest = text;
    ctx.strokeStyle = ctx.fillStyle = colour(m.colour);
    ctx.setLineDash([5 * dpr, 4 * dpr]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(right, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(right, y);
    ctx.lineTo(right + 8 * dpr, text);
    ctx.stroke();
    ctx.fillText(`${m.label} ${tell(m.value)}`, right + 11 * dpr, text);
  }
  ctx.restore();
}

/** Samples with one that knows nothing in each gap, which breaks the lines. */
function withGaps(samples) {
  return samples.flatMap((s, i) => (i > 0 && s.t - samples[i - 1].t > gap ? [{ t: (s.t + samples[i - 1].t) / 2, gap: true }, s] : [s]));
}

/** The mark of a line in a legend: its colour and its dashes. */
function swatch(line) {
  const NS = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(NS, 'svg'),
    path = document.createElementNS(NS, 'path');
  svg.setAttribute('viewBox', '0 0 18 8');
  svg.setAttribute('aria-hidden', 'true');
  svg.classList.add('swatch');
  path.setAttribute('d', 'M0 4h18');
  path.setAttribute('stroke', colour(line.colour));
  path.setAttribute('stroke-width', '3');
  if (line.dash) path.setAttribute('stroke-dasharray', line.dash.join(' '));
  svg.append(path);
  return svg;
}

/** Sums from the last line up, so that the first is drawn highest and the others over it. */
function stack(columns) {
  const below = new Array(columns[0]?.length ?? 0).fill(0);
  return columns
    .toReversed()
    .map((column) => column.map((v, i) => (v === null ? null : (below[i] += v))))
    .toReversed();
}

/** The power of ten next to a value, in steps of 1, 2, 5. */
function decade(v, round) {
  const power = 10 ** Math.floor(Math.log10(v)),
    m = v / power;
  if (round === Math.floor) return power * (m >= 5 ? 5 : m >= 2 ? 2 : 1);
  return power * (m > 5 ? 10 : m > 2 ? 5 : m > 1 ? 2 : 1.001);
}

/** Ticks at 1, 2 and 5 of each power of ten; of more than nine, at 1 alone. */
function logSplits(u, axis, min, max) {
  const all = [];
  for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) all.push(power, 2 * power, 5 * power);
  const within = all.filter((v) => v >= min * 0.999 && v <= max * 1.001);
  return within.length <= 9 ? within : within.filter((v, i) => all.indexOf(v) % 3 === 0);
}

/** A colour on a ground, by a share of it; both as #rrggbb. */
function mixed(ink, ground, share) {
  const part = (c, i) => parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `rgb(${[0, 1, 2].map((i) => Math.round(part(ink, i) * share + part(ground, i) * (1 - share))).join(',')})`;
}

/**
 * A small chart of scores by tokens, with what they had to stay above.
 * @param {[number, number][]} track tokens and score (nats)
 * @param {{label: string, value: number, colour: string}[]} marks
 * @returns {{element: HTMLElement, destroy: () => void}}
 */
export function scoreChart(track, marks, tell) {
  const plot = h('div.plot', {
    role: 'img',
    'aria-label': `Running minimum of the score over ${track.length} points, at the end ${tell(track[track.length - 1][1])}; ${marks.map((m) => `${m.label} at ${tell(m.value)}`).join(', ')}.`,
  });
  const element = h('div.track', { test: 'score-track', data: { points: track.length } }, plot);
  let u = null;
  const draw = () => {
    u?.destroy();
    u = new window.uPlot(trackOptions(plot, track, marks, tell), [track.map((p) => p[0]), track.map((p) => p[1])], plot);
  };
  const sized = new ResizeObserver(() => {
    if (plot.clientWidth > 0 && plot.clientWidth !== u?.width) draw();
  });
  sized.observe(plot);
  const unheard = window.foregateTheme.onChange(() => requestAnimationFrame(draw));
  return {
    element,
    destroy: () => {
      sized.disconnect();
      unheard();
      u?.destroy();
    },
  };
}

function trackOptions(plot, track, marks, tell) {
  const axis = { stroke: colour('muted'), font: `11px ${font}`, grid: { stroke: colour('grid'), width: 1 }, ticks: { show: false } };
  const all = [...track.map((p) => p[1]), ...marks.map((m) => m.value)],
    low = Math.min(...all),
    high = Math.max(...all),
    room = (high - low || 1) * 0.15;
  return {
    width: Math.max(plot.clientWidth, 120),
    height: 150,
    padding: [10, gutterOf(marks, tell), 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, range: [0, Math.max(track[track.length - 1][0], 1) * 1.02] }, y: { range: [low - room, high + room] } },
    axes: [
      { ...axis, size: 26, values: (u, ticks) => ticks.map((v) => (Number.isInteger(v) ? `${v}` : '')) },
      { ...axis, size: axisWidth, values: (u, ticks) => ticks.map((v) => String(Number(v.toPrecision(3)))) },
    ],
    series: [{}, { stroke: colour('draft'), width: 2, points: { show: true, size: 5, fill: colour('draft') } }],
    hooks: { draw: [(u) => drawMarks(u, marks, tell)] },
  };
}
