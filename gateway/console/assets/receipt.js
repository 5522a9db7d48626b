// One receipt: what happened to one request, and the numbers behind each decision.

import { get } from './api.js';
import { scoreChart } from './charts.js';
import { fill, h, say, table, toast } from './dom.js';
import { many, millis, number, percent, stamp, usd } from './format.js';
import { answeredBy, firstByte, unanswered } from './receipts.js';
import { waterfall } from './waterfall.js';

const kind = { cache: 'cache', draft: 'draft', mixed: 'draft, then target', target: 'target', none: 'no answer' };
/** Why there was no answer, by error code. */
const reasons = {
  no_backend: 'no backend was available',
  shed: 'its priority class was shed because the pool had no capacity',
  upstream_busy: 'all backends were busy',
  upstream_refused: 'no backend accepted the connection',
  upstream_timeout: 'the first token did not arrive in time',
  upstream_rejected: 'the backend refused the request',
  upstream_wrong_model: 'the backend serves another model',
  upstream_auth: 'the backend refused the credentials of the pool',
  client_gone: 'the client disconnected before the first byte',
  deadline: 'its deadline expired',
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
    h('section.block', null, h('h2', null, 'Timeline'), waterfall(r)),
    h('div.columns', null, judgement(r, ends), checks(r), continuations(r), tokens(r), plan(r), settingsOf(r), audit(r), prices(r)),
    raw(r),
  );
}

const statusOf = (r) => (r.error ? `${r.code} ${r.error}` : r.code);

function head(r) {
  const facts = [
    ['Received', stamp(new Date(r.time))],
    ['Tenant', `${r.tenant || 'none'}, ${r.priority}`],
    ['Route', r.route],
    ['Status', statusOf(r)],
    ['Answered by', kind[answeredBy(r)] ?? answeredBy(r)],
    ['Cache', r.cache || 'not used'],
    ['Finish', r.finish || '–'],
    ['Time to first token', millis(firstByte(r))],
    ['Total time', millis(r.ms.total)],
    ['Cost', usd(r.usd)],
    ['At the target alone', usd(r.target_alone_usd)],
    ['Its audits', usd(r.audit_usd)],
  ];
  if (r.target_pool) facts.push(['Target pool', r.diverted_from ? `${r.target_pool}, instead of ${r.diverted_from}` : r.target_pool]);
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
            ? 'The answer came from the cache, so no draft was judged.'
            : 'No draft was judged.',
      ),
    );
  const marks = [];
  if (!far(v.threshold)) marks.push({ label: 'threshold', value: v.threshold, colour: 'failed' });
  const chart = r.score_by_token?.length > 1 ? scoreChart(r.score_by_token, marks, nats) : null;
  if (chart) ends.push(chart.destroy);
  return part(
    'Verdict',
    list([
      ['Draft', h('b.state', { data: { tone: v.accept ? 'good' : 'warn' } }, v.accept ? 'accepted' : 'rejected')],
      ['Reason', v.reason.replaceAll('_', ' ')],
      ['Decided by', v.reason.startsWith('target_') ? 'full check by the target' : 'its own score'],
      ['Score', nats(v.score)],
      ['Threshold', nats(v.threshold)],
      ['Tokens judged', number(v.tokens)],
    ]),
    chart && h('h3', null, 'Score by token'),
    chart?.element,
  );
}

function checks(r) {
  if (!r.checks?.length) return null;
  return part(
    'Checks by the target',
    table(
      'Checks of the draft by the target',
      [{ label: 'Method' }, { label: 'Result' }, { label: 'Score', number: true }, { label: 'Tokens kept', number: true }, { label: 'Duration', number: true }],
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

function continuations(r) {
  if (!r.continuations?.length) return null;
  return part(
    'Continuations',
    table(
      'Where another backend continued the answer',
      [{ label: 'Reason' }, { label: 'Time', number: true }, { label: 'After', number: true }],
      r.continuations.map((t) =>
        h(
          'tr',
          null,
          h('th', { scope: 'row' }, t.reason.replaceAll('_', ' ')),
          h('td.number', null, millis(r.ms.cascade_start + t.at_ms)),
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
      unanswered(r) ? ['Served', 'none'] : ['Drafted and served', number(t.accepted)],
      ['Drafted and wasted', number(t.wasted)],
      ['Generated by the target', unanswered(r) && !t.target ? null : number(t.target)],
      ['Scored by the target', number(t.scored)],
      ['Draft released after', t.committed ? many(t.committed, 'token') : 'not released'],
    ]),
  );
}

/** Why the request was drafted or not: the plan and its cost estimate. */
function plan(r) {
  const p = r.plan,
    s = p?.estimate;
  if (!p) return null;
  const facts = [
    ['Plan', p.judged ? `draft, judged by ${p.mode || r.settings?.mode || 'its score'}` : p.tier],
    ['Reason', p.reason ? p.reason.replaceAll('_', ' ') : null],
    ['Hold-back', p.buffered ? 'whole draft' : 'first tokens'],
    ['Target checks', { never: 'never', always: 'always', exact: 'every token' }[p.verification] ?? p.verification],
    ['Check method', p.scorer || null],
  ];
  if (!s) return part('Plan', list(facts), h('p.none', null, 'No cost estimate: pools need a price (usd_per_hour).'));
  return part(
    'Plan and cost estimate',
    list([
      ...facts,
      ['Cost, target only', usd(s.target_usd)],
      ['Cost, draft first', usd(s.draft_usd)],
      ['Expected saving', usd(s.target_usd - s.draft_usd)],
      ['Acceptance used', `${percent(s.acceptance)} (${number(s.samples)} samples)`],
      ['Break-even acceptance', percent(s.break_even)],
      ['Expected output', `${number(s.output_tokens)} tokens, ${number(s.holdback_tokens)} held back`],
      ['Drafted to explore', s.explored ? 'yes' : null],
    ]),
  );
}

function settingsOf(r) {
  const x = r.settings;
  if (!x) return null;
  return part(
    'Settings in force',
    list([
      ['Mode', x.mode],
      ['Hold-back', `${many(x.holdback_tokens, 'token')}, at most ${millis(x.holdback_ms)}`],
      ['Mid-stream failover', x.midstream_failover ? 'yes' : 'no'],
      ['Cost guard', x.economy_guard ? `on, explores ${percent(x.explore_rate)}` : 'off'],
    ]),
  );
}

function audit(r) {
  const t = r.audit;
  if (!t) return null;
  return part(
    'Evidence',
    list([
      ['Policy version', t.policy],
      ['Traffic class', t.traffic_class],
      ['Audited', t.audited ? 'yes' : 'no'],
      ['Shadow', t.shadow ? 'yes' : 'no'],
    ]),
  );
}

function prices(r) {
  const p = r.prices;
  if (!p) return null;
  const mega = (v) => (v > 0 ? usd(v * 1e6) : 'unknown');
  return part(
    'Prices',
    table(
      'Prices per million tokens',
      [{ label: 'Per million tokens' }, { label: 'Prompt', number: true }, { label: 'Answer', number: true }],
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
      toast('The browser does not allow copying here; the text is selected instead.', 'error');
    }
  };
  const pre = h('pre', { test: 'receipt-raw', tabindex: '0', 'aria-label': 'Receipt as JSON' }, text);
  return h(
    'section.block',
    null,
    h('h2', null, 'JSON', h('button.quiet', { type: 'button', test: 'copy-raw', on: { click: copy } }, 'Copy')),
    pre,
  );
}
