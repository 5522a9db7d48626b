// Backends by pool: state, metrics, and draining.

import { get, onSession, poll, post, session } from './api.js';
import { dialog, field, fill, h, select, table, toast } from './dom.js';
import { many, number, percent, seconds, usd } from './format.js';
import { breakerOf, stateWords, taking, usable } from './standing.js';

const spans = [
  ['10m', '10 minutes'],
  ['30m', '30 minutes'],
  ['2h', '2 hours'],
  ['24h', '1 day'],
  ['', 'until undrained'],
];
const tones = { up: 'good', drained: 'warn', suspect: 'warn', down: 'bad' };

/** Shows the page. @returns {() => void} its end */
export function mount(root, { live, ready }) {
  const body = h('div'),
    problem = h('p.problem', { role: 'alert' });
  root.append(h('h1', null, 'Backends'), problem, body);
  let status = null,
    pools = [];
  const draw = () => {
    if (body.querySelector('tr:focus-within')) {
      // the button in use must not go away under the fingers
      if (same(body, pools, status)) return refresh(body, pools, live.last);
    }
    fill(
      body,
      pools.map((p) => poolPart(p, status, live.last, asking.now)),
      !pools.length && h('p.none', null, 'No backends yet. List them under pools.NAME.backends or set pools.NAME.discover in the configuration.'),
      engines(status),
    );
  };
  const asking = poll(
    2000,
    async (signal) => {
      const [known, inside] = await Promise.all([
        get('backends', signal),
        get('status', signal).catch((err) => {
          if (err.name === 'AbortError') throw err;
          return null;
        }),
      ]);
      pools = known.pools;
      status = inside;
    },
    (err) => {
      problem.textContent = err ? err.message : '';
      if (!err) draw();
      ready();
    },
  );
  const unheard = onSession(() => draw());
  return () => {
    asking.stop();
    unheard();
  };
}

const keyOf = (pool, b) => `${pool.pool}/${b.id}`;
const stateKey = (pools, status) => pools.flatMap((p) => p.backends.map((b) => `${keyOf(p, b)} ${stateWords(p, b, status)}`)).join();
const same = (body, pools, status) =>
  [...body.querySelectorAll('[data-test=backend-row]')].map((r) => `${r.dataset.pool}/${r.dataset.backend} ${r.dataset.words}`).join() ===
  stateKey(pools, status);

/** Renews the numbers of rows that stay. */
function refresh(body, pools, sample) {
  const rows = [...body.querySelectorAll('[data-test=backend-row]')],
    all = pools.flatMap((p) => p.backends.map((b) => [p, b]));
  rows.forEach((row, i) => {
    const [p, b] = all[i];
    const [kv, flight, age] = row.querySelectorAll('[data-cell]');
    fill(kv, kvBar(b, sample?.shed_thresholds));
    fill(flight, number(b.in_flight));
    fill(age, b.reading_age_seconds == null ? 'none' : `${seconds(b.reading_age_seconds)} ago`);
    row.dataset.pool = p.pool;
  });
}

/** The kinds of engines of a pool, as far as they are known. */
const enginesOf = (pool) => [...new Set(pool.backends.map((b) => b.engine).filter(Boolean))].map((kind) => ` · ${kind}`).join('');

/** Whose last resort a pool is, and what that cost in this hour. */
const fallbackOf = (pool, status) =>
  (status?.fallbacks ?? [])
    .filter((f) => f.pool === pool.pool)
    .map((f) => ` · fallback of ${f.route}: ${usd(f.spent.used + f.spent.reserved)} of ${usd(f.spent.limit)} this hour`)
    .join('');

function poolPart(pool, status, sample, again) {
  const good = usable(pool, status).length;
  const shed = status?.shedding?.find((s) => s.pool === pool.pool);
  const columns = [
    { label: 'Backend' },
    { label: 'State' },
    { label: 'KV usage', title: 'Share of the KV cache in use. A mark is the threshold at which a priority class is shed.' },
    { label: 'In flight', number: true, hide: true },
    { label: 'Last reading', number: true, hide: true, title: 'Age of the last metrics scrape' },
    { label: 'Breaker', hide: true },
    ...(session.signedIn ? [{ label: '', said: 'Actions' }] : []),
  ];
  return h(
    'section.block',
    { test: 'pool', data: { pool: pool.pool } },
    h(
      'h2',
      null,
      pool.pool,
      h('small', null, `${good} of ${many(pool.backends.length, 'backend')} usable`, enginesOf(pool), fallbackOf(pool, status), shed && ` · shedding ${shed.priorities.join(', ')}`),
    ),
    table(
      `Backends of ${pool.pool}`,
      columns,
      pool.backends.map((b) => backendRow(pool, b, status, sample, again)),
      { class: 'backends' },
    ),
  );
}

function backendRow(pool, b, status, sample, again) {
  const breaker = breakerOf(pool, b, status),
    words = stateWords(pool, b, status),
    drained = b.state === 'drained';
  const order = h(
    'button.quiet',
    {
      type: 'button',
      test: drained ? 'undrain' : 'drain',
      'aria-label': `${drained ? 'Undrain' : 'Drain'} ${b.id}`,
      on: { click: () => (drained ? undrain(pool.pool, b, again) : drain(pool, b, status, again)) },
    },
    drained ? 'Undrain' : 'Drain',
  );
  return h(
    'tr',
    { test: 'backend-row', data: { pool: pool.pool, backend: b.id, state: b.state, words } },
    h('th', { scope: 'row' }, b.id, h('small.mono.wide-only', null, b.url)),
    h('td', null, h('b.state', { data: { tone: words === b.state ? (tones[b.state] ?? '') : 'bad' } }, words), b.why && h('small', null, b.why)),
    h('td', { data: { cell: 'kv' } }, kvBar(b, sample?.shed_thresholds)),
    h('td.number.wide-only', { data: { cell: 'flight' } }, number(b.in_flight)),
    h('td.number.wide-only', { data: { cell: 'age' } }, b.reading_age_seconds == null ? 'none' : `${seconds(b.reading_age_seconds)} ago`),
    h(
      'td.wide-only',
      null,
      breaker
        ? [
            h('b.state', { data: { tone: breaker.state === 'open' ? 'bad' : 'warn' } }, breaker.state),
            h('small', null, breaker.seconds_left ? `${seconds(breaker.seconds_left)} left` : '', breaker.open_here_only && ' on this replica only'),
          ]
        : 'closed',
    ),
    session.signedIn && h('td.orders', null, order),
  );
}

/** KV usage with the thresholds at which priority classes are shed. */
function kvBar(b, lines) {
  if (b.kv_usage == null) return h('span.muted', null, b.reading_age_seconds == null ? 'no reading' : 'not told');
  const ticks = Object.entries(lines ?? {}).map(([name, at]) =>
    h('i.tick', { data: { line: name }, title: `${name} is shed above ${percent(at)}`, style: { left: `${Math.min(at, 1) * 100}%` } }),
  );
  return h(
    'div.kv',
    null,
    h('div.kvbar', { 'aria-hidden': 'true' }, h('i.used', { style: { width: `${Math.min(1, b.kv_usage) * 100}%` } }), ticks),
    h('span.number', null, percent(b.kv_usage)),
  );
}

function drain({ pool, backends }, b, status, again) {
  const left = taking({ pool, backends }, status),
    last = left.length === 1 && left[0] === b;
  const span = select({ test: 'drain-for' }, spans, '30m'),
    why = h('input', { type: 'text', test: 'drain-why', maxlength: '200', placeholder: 'e.g. driver upgrade' });
  const submit = async (e) => {
    e.preventDefault();
    const q = new URLSearchParams({ pool, backend: b.id });
    if (span.value) q.set('for', span.value);
    if (why.value.trim()) q.set('why', why.value.trim());
    await order('drain', q, b.id, again);
    box.close();
  };
  const box = dialog(
    'drain-dialog',
    `Drain ${b.id}`,
    h('p', null, 'It gets no new requests. Requests in flight continue to their end.'),
    last && h('p.warning', null, `This is the last backend of ${pool} that takes requests. Requests that need the pool will get 503.`),
    h(
      'form',
      { on: { submit } },
      field('Duration', span),
      field('Reason', why, 'Shown beside its state and in the log.'),
      h(
        'div.buttons',
        null,
        h('button.quiet', { type: 'button', on: { click: () => box.close() } }, 'Cancel'),
        h('button', { type: 'submit', test: 'drain-submit' }, 'Drain'),
      ),
    ),
  );
  why.focus();
}

const undrain = (pool, b, again) => order('undrain', new URLSearchParams({ pool, backend: b.id }), b.id, again);

async function order(what, q, id, again) {
  try {
    const done = await post(`${what}?${q}`);
    const span = done.for_seconds ? ` for ${seconds(done.for_seconds)}` : '';
    toast(
      done.message || `${done.backend} is ${done.drained ? `drained${span}` : 'in use again'} on all replicas.`,
      done.shared === false ? 'error' : 'ok',
    );
  } catch (err) {
    toast(`${id}: ${err.message}`, 'error');
  }
  again();
}

/** Capabilities of each pool's engines, as probed on one backend. */
function engines(status) {
  if (!status?.engines?.length) return null;
  const rows = status.engines.map((e) =>
    h(
      'tr',
      null,
      h('th', { scope: 'row' }, e.pool),
      h('td', null, e.scoring || 'none'),
      h('td', null, e.continues ? 'from token ids' : 'no'),
      h(
        'td',
        null,
        e.failed || (e.missing ?? []).map((m) => h('div', null, h('b', null, `No ${m.name}: `), m.reason)),
        !e.failed && !e.missing?.length && 'every mode can be used',
        e.scoring_closed && h('small', null, `scoring paused: ${e.scoring_closed}`),
      ),
    ),
  );
  return h(
    'section.block',
    null,
    h('h2', null, 'Engines'),
    table(
      'Capabilities of the engines',
      [
        { label: 'Pool' },
        { label: 'Scoring', title: 'How the engine scores a draft' },
        { label: 'Continuation', title: 'Whether the engine can continue an answer from its token ids' },
        { label: 'What follows' },
      ],
      rows,
    ),
  );
}
