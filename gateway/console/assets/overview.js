// The overview: how the replica stands now, and how it stood in the last ten minutes.

import { get, poll } from './api.js';
import { Chart } from './charts.js';
import { fill, h, say, table } from './dom.js';
import { number, percent, rate, seconds, usd } from './format.js';
import { troubled, troubles } from './standing.js';
import { mix, States } from './strips.js';

const sum = (map) => Object.values(map ?? {}).reduce((a, b) => a + b, 0);
const dashes = [undefined, [6, 3], [2, 2], [8, 3, 2, 3]];
const hues = ['target', 'draft', 'mixed', 'refused', 'cache', 'failed'];

/** Requests by answering tier, stacked from the top in this order. */
export const outcomes = [
  ['failed', 'failed'],
  ['refused', 'refused'],
  ['other', 'forwarded'],
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
    title: 'Requests by tier',
    about: 'Requests per second, stacked.',
    tell: rate,
    stacked: true,
    headline: (s) => sum(s.requests),
    headlineName: 'total',
    lines: (samples) =>
      outcomes
        .filter(([key]) => samples.some((s) => s.requests?.[key] > 0))
        .map(([key, label]) => ({ label, colour: key, value: (s) => s.requests?.[key] ?? 0 })),
    empty: () => 'No requests yet. Send one to /v1/chat/completions on the public listener.',
  },
  {
    test: 'chart-ttft',
    title: 'Time to first token of streams',
    about: 'Percentiles over 30 s, logarithmic.',
    tell: seconds,
    scale: 'log',
    headline: (s) => s.ttft?.p95,
    headlineName: 'p95',
    lines: quantiles('ttft'),
    empty: () => 'No streams yet.',
  },
  {
    test: 'chart-latency',
    title: 'Latency of whole answers',
    about: 'Requests without a stream: percentiles over 30 s, logarithmic.',
    tell: seconds,
    scale: 'log',
    headline: (s) => s.latency?.p95,
    headlineName: 'p95',
    lines: quantiles('latency'),
    empty: () => 'No whole answers yet.',
  },
  {
    test: 'chart-shed',
    title: 'Shed requests',
    about: 'Requests refused per second, by priority class.',
    tell: rate,
    headline: (s) => sum(s.shed),
    headlineName: 'all classes',
    lines: () => [
      { label: 'low', colour: 'line-low', value: (s) => s.shed?.low ?? 0 },
      { label: 'normal', colour: 'line-normal', dash: dashes[1], value: (s) => s.shed?.normal ?? 0 },
      { label: 'high', colour: 'line-high', dash: dashes[2], value: (s) => s.shed?.high ?? 0 },
    ],
    empty: () => 'No requests were shed.',
  },
  {
    test: 'chart-kv',
    title: 'KV cache usage',
    about: 'By backend. A priority class is shed above its dashed line.',
    tell: percent,
    scale: 'share',
    headline: (s) => maxOf(s.kv),
    headlineName: 'fullest backend',
    lines: kvLines,
    marks: (s) => Object.entries(s.shed_thresholds ?? {}).map(([label, value]) => ({ label, value, colour: `line-${label}` })),
    empty: () => 'No backend metrics yet. See Backends for errors.',
  },
  {
    test: 'chart-acceptance',
    title: 'Acceptance and disagreement',
    about: 'Share of judged drafts that were served, and the proven bound on disagreement. Of all requests: how many were drafted, and served by their draft.',
    tell: percent,
    scale: 'share',
    headline: (s) => s.acceptance,
    headlineName: 'acceptance',
    lines: () => [
      { label: 'accepted', colour: 'draft', fill: true, value: (s) => s.acceptance },
      { label: 'drafted, of all requests', colour: 'target', dash: dashes[1], value: (s) => s.drafted },
      { label: 'served, of all requests', colour: 'target', value: (s) => s.served_by_draft },
      { label: 'disagreement, proven below', colour: 'mixed', dash: dashes[1], value: (s) => s.disagreement_bound },
    ],
    marks: (s) => (s.max_disagreement == null ? [] : [{ label: 'max. disagreement', value: s.max_disagreement, colour: 'failed' }]),
    empty: () => 'No drafts were judged in the last ten minutes. Send requests to a route with a draft pool and a speculation.mode other than off.',
  },
  {
    test: 'chart-cache',
    title: 'Cache hit ratio',
    about: 'Share of requests that used the cache and got a cached or shared answer.',
    tell: percent,
    scale: 'share',
    headline: (s) => s.cache_hit_ratio,
    headlineName: 'hit ratio',
    lines: () => [{ label: 'hits', colour: 'cache', fill: true, value: (s) => s.cache_hit_ratio }],
    empty: () => 'No requests used the cache. Check that cache.mode is on.',
  },
  {
    test: 'chart-cost',
    title: 'Cost per hour',
    about: 'Cost of the backends’ work, which adds up to their rent when they are full, and savings by drafts and cache.',
    tell: usd,
    headline: (s) => s.spent_per_hour,
    headlineName: 'spent per hour',
    lines: () => [
      { label: 'spent', colour: 'target', value: (s) => s.spent_per_hour },
      { label: 'saved', colour: 'draft', dash: dashes[1], value: (s) => s.saved_per_hour },
    ],
    empty: () => 'No cost is known yet. It needs pools.NAME.usd_per_hour in the configuration, and speeds, which are learned from some seconds of work.',
  },
];

const maxColouredLines = 8; // the other lines are drawn thin

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
  if (lines.length <= maxColouredLines) return lines;
  const fullest = lines.toSorted((a, b) => b.now - a.now).slice(0, maxColouredLines);
  return [...lines.filter((l) => !fullest.includes(l)).map((l) => ({ ...l, colour: 'other', dash: undefined, quiet: true })), ...fullest];
}

/** The tiles: hook, label, value, how it is told and what stands below it. Health first, then traffic, then money. */
const tiles = [
  ['tile-failed', 'Failed', (s) => (sum(s.requests) > 0 ? share(s, ['failed']) : null), percent, () => 'of requests, last 10 s'],
  ['tile-shed', 'Shed', (s) => sum(s.shed), rate, (s) => (s.shedding.length ? s.shedding.join(', ') : 'no class is shed')],
  ['tile-ttft', 'TTFT of streams, P95', (s) => s.ttft?.p95, seconds, (s) => (s.ttft ? `median ${seconds(s.ttft.p50)}` : 'no streams yet')],
  ['tile-latency', 'Whole answers, P95', (s) => s.latency?.p95, seconds, (s) => (s.latency ? `median ${seconds(s.latency.p50)}` : 'no whole answers yet')],
  ['tile-redis', 'Redis', (s) => s.redis_level || null, (v) => v ?? '–', (s) => levels[s.redis_level] ?? 'unknown'],
  ['tile-replicas', 'Replicas', (s) => s.replicas, number, () => 'alive'],
  ['tile-rate', 'Requests', (s) => sum(s.requests), rate, (s) => `${number(s.in_flight)} in flight`],
  [
    'tile-acceptance',
    'Acceptance',
    (s) => s.acceptance,
    percent,
    (s) => (s.disagreement_bound == null ? 'of judged drafts, last 30 s' : `of judged drafts; disagreement < ${percent(s.disagreement_bound)}, limit ${percent(s.max_disagreement)}`),
  ],
  ['tile-cache', 'Cache hit ratio', (s) => s.cache_hit_ratio, percent, () => 'of requests that use it'],
  ['tile-spent', 'Spent today', (s, used) => used?.total.usd ?? null, usd, (s, used) => usedBy(used)],
  [
    'tile-saved',
    'Saved today',
    (s, used) => used && saved(used.total),
    usd,
    (s, used) => (used && used.total.usd + saved(used.total) > 0 ? `${percent(saved(used.total) / (used.total.usd + saved(used.total)))} of the cost without drafts and cache` : 'by drafts and cache'),
  ],
  [
    'tile-rent',
    'Spent per hour',
    (s) => s.spent_per_hour,
    usd,
    (s) => (s.rent_per_hour > 0 ? `at the rate of the last 30 s; rent ${usd(s.rent_per_hour)}` : 'at the rate of the last 30 s'),
  ],
];

const saved = (total) => total.saved_by_drafts_usd + total.saved_by_cache_usd;
/** Whose money it is: GET /admin/usage counts it, as the page of the tenants does. */
const usedBy = (used) => (used ? `${used.scope === 'replica' ? 'this replica' : 'all replicas'}, UTC day` : '');

const toneOf = {
  'tile-failed': (v) => v > 0.01 && 'bad',
  'tile-shed': (v) => v > 0 && 'warn',
  'tile-redis': (v) => (v === 'local' ? 'bad' : v !== 'shared' && v && 'warn'),
};

const levels = { shared: 'replicas share state', local: 'replicas work alone' };
const share = (s, keys) => keys.reduce((n, k) => n + (s.requests[k] ?? 0), 0) / sum(s.requests);

function makeTiles(root) {
  const made = tiles.map(([test, label, value, tell, below]) => {
    const big = h('dd.big'),
      small = h('dd.small'),
      el = h('div.tile', { test, data: { value: '' } }, h('dt', null, label), big, small);
    return {
      el,
      show: (s, used) => {
        const v = s && value(s, used);
        el.dataset.value = v ?? '';
        say(big, s ? tell(v ?? null) : '–');
        say(small, s ? below(s, used) : '');
        el.dataset.tone = (s && toneOf[test]?.(v)) || '';
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
  return (s, used) => {
    for (const t of made) t.show(s, used);
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
    used = null,
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
    showTiles(live.last, used);
    showMix(live.last);
    states.update(live.samples, status);
    for (const c of charts) c.update(live.samples);
    if (live.last) ready();
  };
  const tell = () => {
    const said = troubled(status);
    if (said !== told) fill(top, troubles(status));
    told = said;
    fill(routes, routeTable(status), targetTable(status));
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
        const day = new Date().toISOString().slice(0, 10);
        status = await get('status', signal);
        used = await get(`usage?from=${day}&to=${day}&by=day`, signal).catch(() => used); // it is away while Redis is
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

/** One row per target of routes that have several. */
function targetTable(status) {
  const rows = (status.targets ?? []).flatMap((v) => [
    ...v.targets.map((t) => targetRow(v.route, t, t.diverted ? 'takes no requests; the first target answers' : 'answers its conversations')),
  ]);
  if (!rows.length) return null;
  return h(
    'section.block',
    null,
    h('h2', null, 'Targets'),
    table('Targets of routes', [{ label: 'Route' }, { label: 'Pool' }, { label: 'Share', number: true }, { label: 'State' }], rows),
  );
}

/** A target with its share. */
function targetRow(route, target, state) {
  return h('tr', null, h('th', { scope: 'row' }, route), h('td', null, target.pool), h('td.number', null, percent(target.share)), h('td', null, state));
}

/** One row per route: how it uses drafts. */
function routeTable(status) {
  const rows = (status.drafts ?? []).map((d) =>
    h(
      'tr',
      null,
      h('th', { scope: 'row' }, d.route),
      h('td', null, d.mode),
      h('td.number', null, d.break_even_acceptance > 0 ? percent(d.break_even_acceptance) : '–'),
      h('td', null, d.unavailable_modes?.length ? `all but ${d.unavailable_modes.map((m) => m.name).join(', ')}` : 'all'),
    ),
  );
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
        { label: 'Break-even acceptance', number: true, title: 'Acceptance above which drafting a typical request costs less than asking the target' },
        { label: 'Modes available', title: 'Modes that the engines of this route support' },
      ],
      rows,
    ),
  );
}
