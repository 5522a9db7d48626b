// Two strips of the overview: the current traffic mix, and state changes in the last ten minutes.

import { gap } from './charts.js';
import { fill, h, say } from './dom.js';
import { clock, percent, rate } from './format.js';
import { poolsOf, switchedOff } from './standing.js';

const window10 = 600; // seconds

/**
 * The bar of what answered in the last ten seconds.
 * @param {[string, string][]} outcomes key and label
 * @returns {(sample: object|undefined) => void}
 */
export function mix(root, outcomes) {
  const order = outcomes.toReversed();
  const parts = order.map(([key, label]) => ({ key, label, bar: h('span', { data: { kind: key } }), value: h('b'), item: null }));
  for (const p of parts) p.item = h('li', { hidden: true }, h('i.chip', { data: { kind: p.key }, 'aria-hidden': 'true' }), p.label, p.value);
  const bar = h(
      'div.gate',
      { 'aria-hidden': 'true' },
      parts.map((p) => p.bar),
    ),
    none = h('p.none', null, 'No requests in the last ten seconds.');
  root.append(
    h(
      'section.mix',
      { test: 'mix', 'aria-label': 'Answering tiers in the last ten seconds' },
      h('h2', null, 'Traffic now'),
      bar,
      h(
        'ul.legend',
        null,
        parts.map((p) => p.item),
      ),
      none,
    ),
  );
  return (s) => {
    const all = Object.values(s?.requests ?? {}).reduce((a, b) => a + b, 0);
    none.hidden = all > 0;
    for (const p of parts) {
      const n = s?.requests?.[p.key] ?? 0,
        share = all > 0 ? n / all : 0;
      p.bar.style.flexGrow = String(share);
      p.bar.hidden = share === 0;
      p.item.hidden = share === 0;
      say(p.value, `${percent(share)} · ${rate(n)}`);
    }
  };
}

const breakerWords = ['closed', 'half-open', 'open'];
const tones = { shared: 'good', local: 'bad', closed: 'good', 'half-open': 'warn', open: 'bad', none: 'good' };

/** Rows of states: backends of each pool now; over time Redis, classes that are shed, breakers that are or were not closed. */
export class States {
  constructor(root) {
    this.list = h('ul.states');
    this.shape = '';
    root.append(
      h('section.block', { test: 'states', 'aria-label': 'States in the last ten minutes' }, h('h2', null, 'States, last ten minutes'), this.list),
    );
  }

  /**
   * @param {object[]} samples oldest first
   * @param {object|null} status
   */
  update(samples, status) {
    const rows = stateRows(samples, status);
    const shape = JSON.stringify(rows.map((r) => r.name));
    if (shape !== this.shape) this.build(rows, shape);
    rows.forEach((row, i) => this.show(this.made[i], row, samples));
  }

  build(rows, shape) {
    this.shape = shape;
    this.made = rows.map((r) => {
      const now = h('b.state'),
        lane = r.pools ? h('span.pools') : h('span.lane', { 'aria-hidden': 'true' });
      return { now, lane, el: h('li', { test: 'state-row', data: { name: r.name } }, h('span.name', null, r.label), lane, now) };
    });
    fill(
      this.list,
      this.made.map((m) => m.el),
    );
  }

  show(made, row, samples) {
    if (row.pools) return showPools(made, row.pools);
    const end = samples[samples.length - 1]?.t ?? 0,
      runs = runsOf(samples, row.of),
      last = runs[runs.length - 1]?.state ?? 'unknown';
    made.el.dataset.now = last;
    made.now.dataset.tone = tones[last] ?? (last === 'unknown' ? '' : 'warn');
    say(made.now, row.tell ? row.tell(last) : last);
    fill(
      made.lane,
      runs.map((run) => {
        const left = Math.max(0, 1 - (end - run.from) / window10),
          right = Math.max(0, 1 - (end - run.to) / window10);
        const tone = tones[run.state] ?? 'warn';
        return h('i', {
          data: { tone },
          title: `${row.label}: ${run.state}, ${clock(new Date(run.from * 1000))} to ${clock(new Date(run.to * 1000))}`,
          style: { left: `${left * 100}%`, width: `${Math.max(0.2, (right - left) * 100)}%` },
        });
      }),
    );
  }
}

/** How many backends of each pool can be used now, and the names of those that cannot. */
function showPools(made, pools) {
  const told = JSON.stringify(pools),
    tone = ['bad', 'warn', 'good'].find((t) => pools.some((p) => p.tone === t)) ?? '';
  if (made.told === told) return;
  made.told = told;
  made.el.dataset.now = pools.map((p) => `${p.pool} ${p.usable}/${p.all}`).join(', ');
  made.now.dataset.tone = tone;
  say(made.now, { bad: 'a pool has no usable backend', warn: 'some unusable', good: 'all usable' }[tone] ?? 'unknown');
  fill(
    made.lane,
    pools.map((p) =>
      h(
        'span',
        null,
        p.pool,
        h('b.state', { data: { tone: p.tone } }, `${p.usable} of ${p.all} usable`),
        p.not.length > 0 && h('small', null, `unusable: ${p.not.join(', ')}`),
      ),
    ),
  );
}

/** Priority classes that are shed: by a kill switch, or because a pool is full. */
function shedOf(sample, off) {
  const names = new Set([...Object.keys(sample.shed_thresholds ?? {}).filter((c) => sample.shed_thresholds[c] === 0), ...off]);
  const full = (sample.shedding ?? []).filter((s) => !names.has(s.split('/').pop()));
  return [...[...names].map((n) => `${n} (by setting)`), ...full].join('; ') || 'none';
}

function stateRows(samples, status) {
  const troubled = [...new Set(samples.flatMap((s) => Object.keys(s.breakers ?? {})))].sort();
  const last = samples[samples.length - 1],
    off = switchedOff(status);
  const rows = [
    { name: 'backends', label: 'Backends', pools: poolsOf(status) },
    { name: 'redis', label: 'Redis', of: (s) => s.redis_level || 'unknown' },
    { name: 'shedding', label: 'Shedding', of: (s) => shedOf(s, s === last ? off : []) },
  ];
  if (!troubled.length)
    rows.push({ name: 'breakers', label: 'Breakers', of: () => 'closed', tell: (state) => (state === 'closed' ? 'all closed' : state) });
  for (const name of troubled) rows.push({ name, label: name, of: (s) => breakerWords[s.breakers?.[name] ?? 0] });
  return rows;
}

/** Spans in which a state stayed the same. */
function runsOf(samples, of) {
  const runs = [];
  for (const s of samples) {
    const state = of(s),
      last = runs[runs.length - 1];
    const goesOn = last && s.t - last.to <= gap;
    if (goesOn) last.to = s.t;
    if (!goesOn || last.state !== state) runs.push({ state, from: s.t, to: s.t });
  }
  return runs;
}
