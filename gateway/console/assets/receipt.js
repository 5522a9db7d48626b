// One receipt: a request's way through the gateway, and by which numbers it was decided.

import { get } from './api.js';
import { trackChart } from './charts.js';
import { fill, h, say, table, toast } from './dom.js';
import { many, millis, number, percent, stamp, usd } from './format.js';
import { answeredBy, firstByte, unanswered } from './receipts.js';
import { waterfall } from './waterfall.js';

const kind = { cache: 'the cache', draft: 'the draft', mixed: 'the draft, then the target', target: 'the target', none: 'nothing' };
/** Why there was no answer, by error code. */
const reasons = {
  no_backend: 'no backend could take the request',
  shed: 'its class was turned away for want of room',
  upstream_busy: 'all backends were busy',
  upstream_refused: 'no backend took the connection',
  upstream_timeout: 'no first byte came in time',
  upstream_rejected: 'the backend refused the request',
  client_gone: 'the client left before its first byte',
  deadline: 'its time was over',
};
const far = (v) => v == null || Math.abs(v) > 1e300;
const nats = (v) => (far(v) ? 'none' : `${number(v)} nats`);

/** Shows the page. @returns {() => void} its end */
export function mount(root, { id, ready }) {
  const ended = new AbortController(),
    ends = [() => ended.abort()];
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div');
  root.append(h('p.back', null, h('a', { href: '#/receipts' }, '← All receipts')), problem, body);
  get(`receipts/${encodeURIComponent(id)}`, ended.signal).then(
    (r) => {
      fill(body, show(r, ends));
      ready();
    },
    (err) => {
      if (err.name === 'AbortError') return;
      say(problem, err.message);
      ready();
    },
  );
  return () => {
    for (const end of ends) end();
  };
}

function show(r, ends) {
  return h(
    'article',
    { test: 'receipt', data: { id: r.id } },
    head(r),
    unanswered(r) && h('p.problem', null, `No answer was given: ${reasons[r.error] ?? 'the request was refused or failed'} (${statusOf(r)}).`),
    h('section.block', null, h('h2', null, 'Its way'), waterfall(r)),
    h('div.columns', null, judgement(r, ends), checks(r), failovers(r), tokens(r), plan(r), rules(r), trial(r), prices(r)),
    raw(r),
  );
}

const statusOf = (r) => (r.error ? `${r.code} ${r.error}` : r.code);

function head(r) {
  const facts = [
    ['Came', stamp(new Date(r.when))],
    ['Tenant', `${r.tenant || 'nobody'}, ${r.priority}`],
    ['Route', r.route],
    ['Status', statusOf(r)],
    ['Answered by', kind[answeredBy(r)] ?? answeredBy(r)],
    ['Cache', r.cache || 'not asked'],
    ['Finish', r.finish || '–'],
    ['First byte', millis(firstByte(r))],
    ['Whole', millis(r.ms.whole)],
    ['Cost', usd(r.usd)],
  ];
  if (r.client_request_id) facts.push(['X-Request-ID', r.client_request_id]);
  if (r.trace) facts.push(['Trace', r.trace]);
  return h('header.receipthead', null, h('h1', null, 'Receipt ', h('span.mono', null, r.id)), list(facts));
}

const list = (facts) =>
  h(
    'dl.facts',
    null,
    facts.filter(([, v]) => v !== null && v !== undefined).map(([k, v]) => h('div', null, h('dt', null, k), h('dd', null, v))),
  );
const part = (title, ...children) => h('section.block', null, h('h2', null, title), ...children);

function judgement(r, ends) {
  const v = r.verdict;
  if (!v)
    return part(
      'Verdict',
      h(
        'p.none',
        null,
        r.plan?.reason
          ? `No draft was judged: ${r.plan.reason.replaceAll('_', ' ')}.`
          : answeredBy(r) === 'cache'
            ? 'The answer was there already; nothing was judged.'
            : 'No draft was judged.',
      ),
    );
  const marks = [];
  if (!far(v.threshold)) marks.push({ label: 'threshold', value: v.threshold, colour: 'failed' });
  if (!far(v.threshold) && v.band > 0 && !far(v.band)) marks.push({ label: 'band down to', value: v.threshold - v.band, colour: 'mixed' });
  const chart = r.score_series?.length > 1 ? trackChart(r.score_series, marks, nats) : null;
  if (chart) ends.push(chart.destroy);
  return part(
    'Verdict',
    list([
      ['Draft', h('b.state', { data: { tone: v.accept ? 'good' : 'warn' } }, v.accept ? 'accepted' : 'refused')],
      ['Reason', v.reason.replaceAll('_', ' ')],
      [
        'By whose word',
        { conf: 'its own score', head: 'the target stood by its head', whole: 'the target checked it whole' }[v.cohort] ?? (v.cohort || '–'),
      ],
      ['Score', nats(v.score)],
      ['Threshold', nats(v.threshold)],
      ['Band', nats(v.band)],
      ['Tokens judged', number(v.tokens)],
    ]),
    chart && h('h3', null, 'Score as it fell, by tokens'),
    chart?.element,
  );
}

function checks(r) {
  if (!r.checks?.length) return null;
  return part(
    'What the target said',
    table(
      'Checks of the draft',
      [{ label: 'By' }, { label: 'Word' }, { label: 'Score', number: true }, { label: 'Kept', number: true }, { label: 'Took', number: true }],
      r.checks.map((c) =>
        h(
          'tr',
          null,
          h('th', { scope: 'row' }, c.scorer, h('small.mono', null, c.backend ?? '')),
          h(
            'td',
            null,
            h('b.state', { data: { tone: c.pass ? 'good' : 'warn' } }, c.pass ? 'pass' : 'fail'),
            h('small', null, c.reason.replaceAll('_', ' ')),
          ),
          h('td.number', null, number(c.score)),
          h('td.number', null, `${number(c.kept)} of ${number(c.tokens)}`),
          h('td.number', null, millis(c.ms)),
        ),
      ),
    ),
  );
}

function failovers(r) {
  if (!r.failovers?.length) return null;
  return part(
    'Mid-stream failovers',
    table(
      'Where the target carried on',
      [{ label: 'Why' }, { label: 'At', number: true }, { label: 'After', number: true }],
      r.failovers.map((t) =>
        h(
          'tr',
          null,
          h('th', { scope: 'row' }, t.why.replaceAll('_', ' ')),
          h('td.number', null, millis(r.ms.began + t.at_ms)),
          h('td.number', null, `${many(t.tokens, 'token')}, ${number(t.bytes)} B`),
        ),
      ),
    ),
  );
}

function tokens(r) {
  const t = r.tokens;
  return part(
    'Tokens',
    list([
      ['Prompt', number(t.prompt)],
      ['Drafted', number(t.drafted)],
      unanswered(r) ? ['Served', 'none'] : ['Of it served', number(t.accepted)],
      ['Of it wasted', number(t.wasted)],
      ['By the target', unanswered(r) && !t.target ? null : number(t.target)],
      ['Computed for checks', number(t.scored)],
      ['Committed after', t.committed ? many(t.committed, 'token') : 'never'],
    ]),
  );
}

/** Why it was drafted, or not: what was reckoned. */
function plan(r) {
  const p = r.plan,
    s = p?.estimate;
  if (!p) return null;
  const facts = [
    ['Plan', p.judged ? `draft, judged by ${p.mode || r.rules?.mode || 'its score'}` : p.tier],
    ['Because', p.reason ? p.reason.replaceAll('_', ' ') : null],
    ['Held back', p.whole ? 'whole draft' : 'head only'],
    ['Target is asked', { never: 'never', doubt: 'in doubt', always: 'always', exact: 'token by token' }[p.target_check] ?? p.target_check],
    ['How', p.scorer || null],
    ['Block', p.block ? many(p.block, 'token') : null],
    ['Under pressure', p.allow_low_score ? 'yes' : null],
  ];
  if (!s) return part('Plan', list(facts), h('p.none', null, 'Nothing was reckoned.'));
  return part(
    'Why it was drafted or not',
    list([
      ...facts,
      ['Target alone', usd(s.target_usd)],
      ['Draft first', usd(s.draft_usd)],
      ['Expected saving', usd(s.saving_usd)],
      ['Acceptance reckoned with', `${percent(s.acceptance)} (${number(s.samples)} samples)`],
      ['Pays from', percent(s.break_even)],
      ['Expected output', `${number(s.output)} tokens, ${number(s.held)} held back`],
      ['Extra first byte', millis(s.extra_ttft_ms)],
      ['Explored', s.explored ? 'yes' : null],
    ]),
  );
}

function rules(r) {
  const x = r.rules;
  if (!x) return null;
  return part(
    'Rules in force',
    list([
      ['Mode', x.mode],
      ['Head check', x.head_check],
      ['Band', nats(x.band_nats)],
      ['Hold-back', `${many(x.holdback_tokens, 'token')}, at most ${millis(x.holdback_ms)}`],
      ['Mid-stream failover', x.midstream_failover ? 'yes' : 'no'],
      ['Guard of costs', x.guard ? `on, explores ${percent(x.explore_rate)}` : 'off'],
      ['Most extra first byte', x.max_extra_ttft_ms ? millis(x.max_extra_ttft_ms) : 'no limit'],
    ]),
  );
}

function trial(r) {
  const t = r.evidence;
  if (!t) return null;
  return part(
    'Evidence',
    list([
      ['Policy', t.policy],
      ['Kind', t.traffic_class],
      ['Audited', t.audited ? 'yes' : 'no'],
      ['Shadow', t.shadow ? 'yes' : 'no'],
      ['Inherited', t.inherited ? 'yes' : null],
    ]),
  );
}

function prices(r) {
  const p = r.prices;
  if (!p) return null;
  const mega = (v) => (v > 0 ? usd(v * 1e6) : 'not known');
  return part(
    'Prices',
    table(
      'Prices of a million tokens',
      [{ label: 'A million tokens' }, { label: 'Prompt', number: true }, { label: 'Answer', number: true }],
      [
        ['Draft', p.draft_prefill, p.draft_decode],
        ['Target', p.target_prefill, p.target_decode],
      ].map(([name, a, b]) => h('tr', null, h('th', { scope: 'row' }, name), h('td.number', null, mega(a)), h('td.number', null, mega(b)))),
    ),
  );
}

function raw(r) {
  const text = JSON.stringify(r, null, 2);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast('Copied.');
    } catch {
      getSelection().selectAllChildren(pre);
      toast('The browser does not let a page copy here; it is selected instead.', 'error');
    }
  };
  const pre = h('pre', { test: 'receipt-raw', tabindex: '0', 'aria-label': 'Receipt as JSON' }, text);
  return h(
    'section.block',
    null,
    h('h2', null, 'As JSON', h('button.quiet', { type: 'button', test: 'copy-raw', on: { click: copy } }, 'Copy')),
    pre,
  );
}
