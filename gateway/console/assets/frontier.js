// The frontier: what each maximum of disagreement would give. A point that is chosen proposes the setting;
// it is changed in the dialog that all settings have, by somebody who is signed in.

import { get, onSession, poll, session } from './api.js';
import { colour } from './charts.js';
import { fill, h, say, select, toast } from './dom.js';
import { many, number, percent, seconds, usd } from './format.js';
import { confirmChange } from './settingsedit.js';

const every = 15000; // ms between two readings: a replica reads the whole log of audits for one
const height = 220; // CSS pixels
const font = 'ui-sans-serif, system-ui, "Liberation Sans", sans-serif';

/** What the chart can show of a point: a range and how to tell it. */
const columns = {
  share: { label: 'Drafts served', of: (p) => p.share, tell: percent },
  usd: { label: 'Saved per day', of: (p) => p.usd_saved_per_day, tell: usd },
  tokens: { label: 'Target tokens saved per day', of: (p) => p.tokens_saved_per_day, tell: number },
};

/** Shows the frontiers of all routes. @returns {() => void} its end */
export function mountFrontiers(root) {
  const problem = h('p.problem', { role: 'alert' }),
    list = h('div'),
    panels = new Map(); // by route
  root.append(problem, list);
  const restyle = () => panels.forEach((p) => p.draw());
  const asking = poll(
    every,
    async (signal) => {
      const told = await get('risk/frontier', signal);
      const routes = [...new Set(told.frontiers.map((f) => f.route))];
      for (const [route, p] of panels)
        if (!routes.includes(route)) {
          p.destroy();
          panels.delete(route);
        }
      for (const route of routes) {
        if (!panels.has(route)) {
          panels.set(route, new Panel(route));
          list.append(panels.get(route).element);
        }
        panels.get(route).update(told.frontiers.filter((f) => f.route === route));
      }
    },
    (err) => say(problem, err ? err.message : ''),
  );
  const unheard = [window.foregateTheme.onChange(() => requestAnimationFrame(restyle)), onSession(restyle)];
  return () => {
    asking.stop();
    unheard.forEach((end) => end());
    panels.forEach((p) => p.destroy());
  };
}

/** The frontier of one route. */
class Panel {
  constructor(route) {
    this.route = route;
    this.all = [];
    this.chosen = null; // maximum disagreement of the proposal
    const redraw = () => this.draw();
    this.kind = select({ test: 'frontier-class', 'aria-label': 'Traffic class', on: { change: redraw } }, []);
    this.column = select({ test: 'frontier-column', 'aria-label': 'Shown', on: { change: redraw } }, []);
    this.says = h('p.says', { test: 'frontier-summary' });
    this.plot = h('div.plot', { role: 'img' });
    this.none = h('p.none', { hidden: true });
    this.points = h('ul.points');
    this.proposal = h('div', { 'aria-live': 'polite' });
    this.figure = h(
      'figure.chart.frontier',
      { test: 'frontier-chart', data: { route, points: 0 } },
      h('figcaption', null, h('h3', null, 'Choosing the maximum disagreement'), h('div.filters', null, this.kind, this.column)),
      this.says,
      this.plot,
      this.none,
      this.points,
      this.proposal,
    );
    this.element = h('section.block', null, h('h2', null, route), this.figure);
    this.sized = new ResizeObserver(() => {
      if (this.u && this.plot.clientWidth > 0 && this.plot.clientWidth !== this.u.width) this.u.setSize({ width: this.plot.clientWidth, height });
    });
    this.sized.observe(this.plot);
  }

  destroy() {
    this.sized.disconnect();
    this.u?.destroy();
    this.element.remove();
  }

  /** @param {object[]} frontiers of the route, as GET /admin/risk/frontier tells them */
  update(frontiers) {
    this.all = frontiers;
    this.draw();
  }

  /** The frontier that is selected. */
  selected() {
    offer(this.kind, [...new Set(this.all.map((f) => f.traffic_class))].map((c) => [c, c]));
    return this.all.find((f) => f.traffic_class === this.kind.value);
  }

  draw() {
    const f = this.selected();
    if (!f) return;
    const known = f.known ? f.points : [];
    offer(this.column, Object.entries(columns).filter(([, c]) => known.some((p) => c.of(p))).map(([name, c]) => [name, c.label])); // prettier-ignore
    const column = columns[this.column.value] ?? columns.share;
    say(this.says, `${many(f.audits, 'audit')}, ${number(f.bad)} of them bad by the label ${f.label}.`);
    Object.assign(this.figure.dataset, { points: known.length, label: f.label, class: f.traffic_class, eps: f.max_disagreement });
    this.plot.hidden = this.points.hidden = known.length === 0;
    this.none.hidden = known.length > 0;
    say(this.none, known.length ? '' : `Too few audits to say anything: about ${number(f.audits_needed)} are needed.`);
    this.u?.destroy();
    this.u = null;
    if (known.length) this.chart(f, column);
    this.list(known, column);
    this.propose(f);
  }

  chart(f, column) {
    const at = f.points.map((p) => p.max_disagreement),
      ranges = f.points.map((p) => column.of(p));
    const value = (part) => ranges.map((r) => r?.[part] ?? null);
    this.plot.setAttribute('aria-label', `${column.label} by the maximum disagreement, from ${percent(at[0])} to ${percent(at[at.length - 1])}; the buttons below tell the values.`);
    const lines = { rates: at, inForce: f.max_disagreement, chosen: () => this.chosen };
    this.u = new window.uPlot(chartOptions(this.plot, column, lines), [at, value('high'), value('estimate'), value('low')], this.plot);
    this.u.over.addEventListener('click', (e) => {
      const i = this.u.posToIdx(e.clientX - this.u.over.getBoundingClientRect().left);
      if (at[i] !== undefined) this.choose(at[i]);
    });
  }

  /** The points as buttons: for the keyboard, and to be read. */
  list(points, column) {
    const focused = this.points.contains(document.activeElement) && document.activeElement.dataset.rate;
    fill(
      this.points,
      points.map((p) => {
        const r = column.of(p);
        return h(
          'li',
          null,
          h(
            'button.quiet',
            {
              type: 'button',
              test: 'frontier-point',
              data: { rate: p.max_disagreement },
              'aria-pressed': String(p.max_disagreement === this.chosen),
              on: { click: () => this.choose(p.max_disagreement) },
            },
            h('b', null, percent(p.max_disagreement)),
            p.in_force && ' (in force)',
            h('span', null, r ? `${column.tell(r.estimate)} (${column.tell(r.low)} … ${column.tell(r.high)})` : '–'),
            h('small', null, certified(p)),
          ),
        );
      }),
    );
    if (focused) this.points.querySelector(`[data-rate="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  choose(rate) {
    this.chosen = this.chosen === rate ? null : rate;
    this.draw();
  }

  /** What would have to be set for the chosen point. Nothing is changed here. */
  propose(f) {
    const p = f.known && f.points.find((x) => x.max_disagreement === this.chosen);
    if (!p) return fill(this.proposal);
    const name = `${f.setting}@${f.route}`,
      set = { [name]: String(p.max_disagreement) };
    const done = (changes) => {
      if (!changes.length) toast('This is the current value.');
      this.chosen = null;
      this.draw();
    };
    const review = () => confirmChange(`Maximum disagreement ${percent(p.max_disagreement)} for ${f.route}`, { set }, 'settings', done);
    return fill(
      this.proposal,
      h(
        'div.proposal',
        { test: 'frontier-proposal', data: { name, value: p.max_disagreement } },
        h(
          'p',
          null,
          `Disagreement at most ${percent(p.max_disagreement)}: about ${rangeWords(p.share, percent)} of the drafts are served, of which about ${rangeWords(p.disagreement, percent)} would be refused by the target; ${certified(p)}.`,
        ),
        h('p', null, h('code', null, `foregate settings set ${name}=${p.max_disagreement}`)),
        h(
          'div.buttons',
          null,
          h('button.quiet', { type: 'button', test: 'frontier-cancel', on: { click: () => this.choose(p.max_disagreement) } }, 'Cancel'),
          session.signedIn && h('button', { type: 'button', test: 'frontier-review', on: { click: review } }, 'Review change'),
          !session.signedIn &&
            session.writable &&
            h('button', { type: 'button', on: { click: () => window.dispatchEvent(new Event('foregate:signin')) } }, 'Sign in to change it'),
        ),
      ),
    );
  }
}

/** Sets the options of a select, keeping what is chosen; it is hidden where there is nothing to choose. */
function offer(el, options) {
  el.hidden = options.length < 2;
  if (JSON.stringify(options) === el.dataset.offered) return;
  el.dataset.offered = JSON.stringify(options);
  const chosen = options.some(([value]) => value === el.value) ? el.value : options[0]?.[0];
  fill(
    el,
    options.map(([value, label]) => h('option', { value, selected: value === chosen }, label)),
  );
}

const rangeWords = (r, tell) => `${tell(r.estimate)} (${tell(r.low)} … ${tell(r.high)})`;

/** When a point's drafts would be served. */
function certified(p) {
  if (p.more_audits == null) return 'no threshold is expected to be certified';
  if (p.more_audits === 0) return 'certified by these audits';
  const time = p.more_seconds == null ? '' : `, about ${seconds(p.more_seconds)}`;
  return `after about ${many(Math.ceil(p.more_audits), 'more audit')}${time}`;
}

function chartOptions(plot, column, lines) {
  const axis = { stroke: colour('muted'), font: `11px ${font}`, grid: { stroke: colour('grid'), width: 1 }, ticks: { show: false } };
  const ink = colour('draft'),
    edge = { stroke: ink, width: 1, dash: [3, 3], points: { show: false } };
  return {
    width: Math.max(plot.clientWidth, 120),
    height,
    padding: [16, 16, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      x: { time: false, distr: 3, range: (u, min, max) => [min * 0.9, max * 1.1] },
      y: { range: (u, min, max) => [Math.min(0, min), max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      { ...axis, size: 28, splits: (u) => (u.width < 500 ? lines.rates.filter((r) => [0.01, 0.02, 0.05, 0.1, 0.2].includes(r)) : lines.rates), filter: (u, splits) => splits, values: (u, ticks) => ticks.map(percent) },
      { ...axis, size: 62, values: (u, ticks) => ticks.map((v) => column.tell(v)) },
    ],
    series: [{}, edge, { stroke: ink, width: 2, points: { show: true, size: 7, fill: ink } }, edge],
    bands: [{ series: [1, 3], fill: `${ink}26` }],
    hooks: {
      draw: [
        (u) => {
          upright(u, lines.inForce, 'in force', 'failed');
          if (lines.chosen() !== null) upright(u, lines.chosen(), 'proposed', 'ink');
        },
      ],
    },
  };
}

/** Draws an upright line with its name. */
function upright(u, value, name, tone) {
  const { ctx, bbox } = u,
    dpr = devicePixelRatio || 1,
    x = Math.round(u.valToPos(value, 'x', true));
  ctx.save();
  ctx.font = `${11 * dpr}px ${font}`;
  ctx.textAlign = 'center';
  ctx.lineWidth = 1.5 * dpr;
  ctx.strokeStyle = ctx.fillStyle = colour(tone);
  ctx.setLineDash([5 * dpr, 4 * dpr]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.fillText(name, x, bbox.top - 4 * dpr);
  ctx.restore();
}
