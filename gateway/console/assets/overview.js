// The overview: how the replica stands now, and how it stood in the last ten minutes.

import { get, poll } from './api.js';
import { Chart } from './charts.js';
import { fill, h, say, table } from './dom.js';
import { number, percent, rate, seconds, usd } from './format.js';
import { judgedBy, promised, troubled, troubles } from './standing.js';
import { mix, States } from './strips.js';

const sum = (map) => Object.values(map ?? {}).reduce((a, b) => a + b, 0);
const dashes = [undefined, [6, 3], [2, 2], [8, 3, 2, 3]];
const hues = ['target', 'draft', 'mixed', 'refused', 'cache', 'failed'];

/** What answered, the least wanted first: stacked in that order from the top. */
export const outcomes = [
  ['failed', 'failed'],
  ['refused', 'refused'],
  ['other', 'passed through'],
  ['target', 'target'],
  ['mixed', 'draft, then target'],
  ['draft', 'draft'],
  ['cache', 'cache'],
];

const quantiles = (field) => () => [
  { label: 'p50', colour: 'draft', value: (s) => s[field]?.p50 },
  { label: 'p95', colour: 'target', dash: dashes[1], value: (s) => s[field]?.p95 },
  { label: 'p99', colour: 'failed', dash: dashes[2], value: (s) => s[field]?.p99 },
];

/** @type {import('./charts.js').Spec[]} */
const specs = [
  {
    test: 'chart-requests',
    title: 'Requests by what answered',
    about: 'A second, stacked.',
    tell: rate,
    stacked: true,
    headline: (s) => sum(s.requests),
    headlineName: 'all together',
    lines: (samples) =>
      outcomes
        .filter(([key]) => samples.some((s) => s.requests?.[key] > 0))
        .map(([key, label]) => ({ label, colour: key, value: (s) => s.requests?.[key] ?? 0 })),
    empty: () => 'No request has come yet.',
  },
  {
    test: 'chart-acceptance',
    title: 'Acceptance and the promise',
    about: 'Judged drafts that were served, and how many wrongly.',
    tell: percent,
    scale: 'share',
    headline: (s) => s.acceptance,
    headlineName: 'acceptance',
    lines: () => [
      { label: 'accepted', colour: 'draft', fill: true, value: (s) => s.acceptance },
      { label: 'wrongly, proven below', colour: 'mixed', dash: dashes[1], value: (s) => s.bound },
    ],
    marks: (s) => (s.promised == null ? [] : [{ label: 'promised', value: s.promised, colour: 'failed' }]),
    empty: () => 'No draft was judged in the last ten minutes.',
  },
  {
    test: 'chart-ttft',
    title: 'Time to first byte',
    about: 'Percentiles over 30 s, logarithmic.',
    tell: seconds,
    scale: 'log',
    headline: (s) => s.ttft?.p95,
    headlineName: 'p95',
    lines: quantiles('ttft'),
    empty: () => 'No answer has begun yet.',
  },
  {
    test: 'chart-latency',
    title: 'Time to the end of the answer',
    about: 'Percentiles over 30 s, logarithmic.',
    tell: seconds,
    scale: 'log',
    headline: (s) => s.latency?.p95,
    headlineName: 'p95',
    lines: quantiles('latency'),
    empty: () => 'No answer has ended yet.',
  },
  {
    test: 'chart-cache',
    title: 'Cache hits',
    about: 'Share of the requests that asked the cache.',
    tell: percent,
    scale: 'share',
    headline: (s) => s.cache_hit,
    headlineName: 'hit ratio',
    lines: () => [{ label: 'hits', colour: 'cache', fill: true, value: (s) => s.cache_hit }],
    empty: () => 'No request asked the cache. It may be off (cache.mode).',
  },
  {
    test: 'chart-kv',
    title: 'KV cache in use',
    about: 'By backend; above a dashed line, the class is shed.',
    tell: percent,
    scale: 'share',
    headline: (s) => maxOf(s.kv),
    headlineName: 'the fullest backend',
    lines: kvLines,
    marks: (s) => Object.entries(s.lines ?? {}).map(([label, value]) => ({ label, value, colour: `line-${label}` })),
    empty: () => 'No backend has been read yet.',
  },
  {
    test: 'chart-shed',
    title: 'Shed by class',
    about: 'Requests refused a second for want of room.',
    tell: rate,
    headline: (s) => sum(s.shed),
    headlineName: 'all classes',
    lines: () => [
      { label: 'low', colour: 'line-low', value: (s) => s.shed?.low ?? 0 },
      { label: 'normal', colour: 'line-normal', dash: dashes[1], value: (s) => s.shed?.normal ?? 0 },
      { label: 'high', colour: 'line-high', dash: dashes[2], value: (s) => s.shed?.high ?? 0 },
    ],
    empty: () => 'Nothing was shed.',
  },
  {
    test: 'chart-cost',
    title: 'Money an hour',
    about: 'What backends’ work costs, and what drafts and cache spare.',
    tell: usd,
    headline: (s) => s.spent_h,
    headlineName: 'spent an hour',
    lines: () => [
      { label: 'spent', colour: 'target', value: (s) => s.spent_h },
      { label: 'saved', colour: 'draft', dash: dashes[1], value: (s) => s.saved_h },
    ],
    empty: () => 'Nothing was spent yet, or no pool has a price (usd_per_hour).',
  },
];

const mostLines = 8; // that are told apart; others are drawn thin

const maxOf = (map) => {
  const all = Object.values(map ?? {});
  return all.length ? Math.max(...all) : null;
};

/** A line for each backend of the last sample: a hue for its pool, dashes within. */
function kvLines(samples) {
  const last = samples[samples.length - 1]?.kv ?? {},
    names = Object.keys(last).sort();
  const pools = [...new Set(names.map((n) => n.split('/')[0]))],
    seen = {};
  const lines = names.map((name) => {
    const [pool] = name.split('/'),
      nth = (seen[pool] = (seen[pool] ?? -1) + 1);
    return {
      label: name,
      colour: hues[pools.indexOf(pool) % hues.length],
      dash: dashes[nth % dashes.length],
      value: (s) => s.kv?.[name],
      now: last[name],
    };
  });
  if (lines.length <= mostLines) return lines;
  const fullest = lines.toSorted((a, b) => b.now - a.now).slice(0, mostLines);
  return [...lines.filter((l) => !fullest.includes(l)).map((l) => ({ ...l, colour: 'other', dash: undefined, quiet: true })), ...fullest];
}

/** The tiles: hook, label, value and what stands below it. */
const tiles = [
  ['tile-spent', 'Spent', (s) => s.spent, usd, (s) => (s.spent_h == null ? 'since the start' : `${usd(s.spent_h)} an hour`)],
  [
    'tile-saved',
    'Saved',
    (s) => s.saved,
    usd,
    (s) => (s.spent + s.saved > 0 ? `${percent(s.saved / (s.spent + s.saved))} of spent and saved` : 'by drafts and cache'),
  ],
  [
    'tile-rate',
    'Requests',
    (s) => sum(s.requests),
    rate,
    (s) => (sum(s.requests) > 0 ? `${percent(share(s, ['refused', 'failed']))} refused or failed` : 'none just now'),
  ],
  [
    'tile-acceptance',
    'Acceptance',
    (s) => s.acceptance,
    percent,
    (s, status) => (s.bound == null ? judgedBy(status) : `wrong: < ${percent(s.bound)}, promised ${percent(s.promised)}`),
  ],
  ['tile-cache', 'Cache hits', (s) => s.cache_hit, percent, () => 'of what asked it'],
  ['tile-ttft', 'First byte, p95', (s) => s.ttft?.p95, seconds, (s) => (s.ttft ? `half within ${seconds(s.ttft.p50)}` : 'no answer yet')],
  ['tile-redis', 'Redis', (s) => s.rung || null, (v) => v ?? '–', (s) => rungs[s.rung] ?? 'not known'],
  ['tile-replicas', 'Replicas', (s) => s.replicas, number, () => 'that live'],
  ['tile-inflight', 'In flight', (s) => s.in_flight, number, () => 'requests now'],
];

const rungs = { shared: 'all replicas as one', degraded: 'slow or failing', local: 'each replica alone' };
const share = (s, keys) => keys.reduce((n, k) => n + (s.requests[k] ?? 0), 0) / sum(s.requests);

function makeTiles(root) {
  const made = tiles.map(([test, label, value, tell, below]) => {
    const big = h('dd.big'),
      small = h('dd.small'),
      el = h('div.tile', { test, data: { value: '' } }, h('dt', null, label), big, small);
    return {
      el,
      show: (s, status) => {
        const v = s && value(s);
        el.dataset.value = v ?? '';
        say(big, s ? tell(v ?? null) : '–');
        say(small, s ? below(s, status) : '');
        if (test === 'tile-redis') el.dataset.tone = v === 'shared' || !v ? '' : v === 'local' ? 'bad' : 'warn';
      },
    };
  });
  root.append(
    h(
      'dl.tiles',
      null,
      made.map((t) => t.el),
    ),
  );
  return (s, status) => {
    for (const t of made) t.show(s, status);
  };
}

/** Shows the page. @returns {() => void} its end */
export function mount(root, { live, ready }) {
  const top = h('div');
  root.append(h('h1.unseen', null, 'Overview'), top);
  const showTiles = makeTiles(root),
    showMix = mix(root, outcomes),
    states = new States(root);
  const charts = specs.map((spec) => new Chart(spec)),
    routes = h('div');
  let status = null,
    told = '';
  root.append(
    h(
      'section.charts',
      { 'aria-label': 'The last ten minutes' },
      charts.map((c) => c.figure),
    ),
    routes,
  );
  const update = () => {
    if (document.hidden) return;
    showTiles(live.last, status);
    showMix(live.last);
    states.update(live.samples, status);
    for (const c of charts) c.update(live.samples);
    if (live.last) ready();
  };
  const tell = () => {
    const said = troubled(status);
    if (said !== told) fill(top, troubles(status));
    told = said;
    fill(routes, routeTable(status));
    update();
  };
  const ends = [
    live.subscribe(update),
    window.foregateTheme.onChange(() => {
      for (const c of charts) c.restyle(live.samples);
    }),
    poll(
      5000,
      async (signal) => {
        status = await get('status', signal);
      },
      (err) => {
        if (!err) tell();
      },
    ).stop,
  ];
  document.addEventListener('visibilitychange', update);
  return () => {
    document.removeEventListener('visibilitychange', update);
    for (const end of ends) end();
    for (const c of charts) c.destroy();
  };
}

/** How each route uses drafts, in one line. */
function routeTable(status) {
  const rows = (status.drafts ?? []).map((d) => {
    const p = (status.promises ?? []).find((x) => x.route === d.route);
    return h(
      'tr',
      null,
      h('th', { scope: 'row' }, d.route),
      h('td', null, d.mode),
      h('td.number', null, d.drafts > 0 ? percent(d.accepted) : '–'),
      h('td.number', null, d.breakeven_acceptance > 0 ? percent(d.breakeven_acceptance) : '–'),
      h('td', null, promised(p, d.mode)),
      h('td', null, d.refused?.length ? `not ${d.refused.map((r) => r.what).join(', ')}` : 'all modes'),
    );
  });
  if (!rows.length) return null;
  return h(
    'section.block',
    null,
    h('h2', null, 'Routes'),
    table(
      'How routes use drafts',
      [
        { label: 'Route' },
        { label: 'Mode' },
        { label: 'Accepted', number: true },
        { label: 'Pays from', number: true },
        { label: 'Promise' },
        { label: 'Engines can do' },
      ],
      rows,
    ),
  );
}
