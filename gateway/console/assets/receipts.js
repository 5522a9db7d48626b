// Receipts of the last requests: what was decided for each request.

import { lines, poll } from './api.js';
import { fill, h, say, select, table } from './dom.js';
import { clock, many, millis, number, short, usd } from './format.js';

const some = 200; // receipts that are asked for
const kept = { tier: '', verdict: '', code: '', tenant: '', auto: true }; // over the opening of one, and coming back

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  let all = [],
    held = null, // newer ones, while somebody reads or is about to click
    asked = false;
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div'),
    count = h('span.muted', { test: 'receipts-count' });
  const pick = (key, label, options) =>
    select(
      {
        test: `filter-${key}`,
        'aria-label': label,
        on: {
          change: (e) => {
            kept[key] = e.target.value;
            draw();
          },
        },
      },
      options,
      kept[key],
    );
  const tenant = h('input', {
    type: 'search',
    test: 'filter-tenant',
    placeholder: 'Tenant or id',
    'aria-label': 'Tenant or id',
    value: kept.tenant,
    on: {
      input: () => {
        kept.tenant = tenant.value;
        draw();
      },
    },
  });
  const auto = h('input', {
    type: 'checkbox',
    test: 'auto-refresh',
    checked: kept.auto,
    on: {
      change: () => {
        kept.auto = auto.checked;
        asking.now();
      },
    },
  });
  root.append(
    h('h1', null, 'Receipts'),
    h(
      'div.filters',
      null,
      tenant,
      pick('tier', 'Answered by', [
        ['', 'any tier'],
        ['draft', 'draft'],
        ['mixed', 'draft, then target'],
        ['target', 'target'],
        ['cache', 'cache'],
        ['none', 'no answer'],
      ]),
      pick('verdict', 'Verdict', [
        ['', 'any verdict'],
        ['accepted', 'accepted'],
        ['rejected', 'rejected'],
        ['bypassed', 'bypassed'],
        ['none', 'none'],
      ]),
      pick('code', 'Status', [
        ['', 'any status'],
        ['2', '2xx'],
        ['4', '4xx'],
        ['5', '5xx'],
      ]),
      h('label.check', null, auto, 'live'),
      count,
    ),
    problem,
    body,
  );
  const countOf = () => `${number(all.filter(fits).length)} of the last ${many(all.length, 'request')}${newer(all, held)}`;
  const draw = () => {
    if (!asked) return;
    const shown = all.filter(fits),
      focused = document.activeElement?.dataset?.id;
    say(count, countOf());
    fill(
      body,
      shown.length
        ? receiptTable(shown)
        : h('p.none', null, all.length ? 'No receipt matches these filters. Clear a filter to see more.' : 'No requests yet. Send one to /v1/chat/completions on the public listener; the last 1,000 receipts are kept here.'),
    );
    if (focused) body.querySelector(`a[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  const show = () => {
    if (held && isRead(body)) {
      say(count, countOf());
      return;
    }
    if (held) [all, held] = [held, null];
    draw();
  };
  const asking = poll(
    3000,
    async (signal) => {
      if (asked && !kept.auto) return;
      held = (await lines(`receipts?n=${some}`, signal)).sort((a, b) => (a.time < b.time ? 1 : -1));
      asked = true;
    },
    (err) => {
      say(problem, err ? err.message : '');
      if (!err && (kept.auto || !body.firstChild)) show();
      ready();
    },
  );
  const free = () => {
    if (held) requestAnimationFrame(show); // the focus is where it goes by then
  };
  body.addEventListener('pointerleave', free);
  body.addEventListener('focusout', free);
  return asking.stop;
}

/** Whether somebody points at a table, or has the focus in it: its rows must then stay where they are. */
const isRead = (body) =>
  body.querySelector('table') !== null && (body.contains(document.activeElement) || (matchMedia('(hover: hover)').matches && body.matches(':hover')));

/** How many receipts are held back. */
function newer(all, held) {
  const known = new Set(all.map((r) => r.id)),
    n = held?.filter((r) => !known.has(r.id)).length ?? 0;
  return n > 0 ? ` · ${number(n)} new, paused` : '';
}

/** Whether no answer was given: nothing of one was sent before it failed, or before the client left (499). */
export const unanswered = (r) => r.code >= 400 && r.code !== 597 && !(r.code === 499 && r.ms.first_byte > 0);

const fromCache = (r) => ['hit', 'local', 'coalesced'].includes(r.cache);

/** What answered, in one word. */
export const answeredBy = (r) => (unanswered(r) ? 'none' : fromCache(r) && r.code === 200 ? 'cache' : r.tier || 'none');

function fits(r) {
  const text = kept.tenant.trim().toLowerCase();
  return (
    (!kept.tier || answeredBy(r) === kept.tier) &&
    (!kept.verdict || (r.acceptance || 'none') === kept.verdict) &&
    (!kept.code || String(r.code)[0] === kept.code) &&
    (!text || r.tenant.toLowerCase().includes(text) || r.id.startsWith(text) || r.client_request_id?.toLowerCase().startsWith(text))
  );
}

function receiptTable(shown) {
  return table(
    'Receipts, the newest first',
    [
      { label: 'Time' },
      { label: 'Tenant' },
      { label: 'Route', hide: true },
      { label: 'Answered by' },
      { label: 'Verdict', hide: true, title: 'Whether the draft was accepted, or why no draft was judged' },
      { label: 'Status', number: true, hide: true },
      { label: 'Tokens', number: true, hide: true },
      { label: 'TTFT', number: true, hide: true, title: 'Time to first token' },
      { label: 'Total', number: true, title: 'Time from the request to the end of its answer' },
      { label: 'Cost', number: true, hide: true },
    ],
    shown.map(row),
    { class: 'receipts' },
  );
}

/** Milliseconds from when a request came until the answer's first byte; null where there was none. */
export const firstByte = (r) => (r.ms.first_byte > 0 ? r.ms.cascade_start + r.ms.first_byte : null);

function row(r) {
  const answer = answeredBy(r),
    out = unanswered(r) ? 0 : r.tokens.accepted + r.tokens.target;
  return h(
    'tr',
    { test: 'receipt-row', data: { id: r.id } },
    h('th', { scope: 'row' }, h('a', { href: `#/receipts/${encodeURIComponent(r.id)}`, data: { rowLink: '', id: r.id } }, clock(new Date(r.time)))),
    h('td', null, r.tenant || '–', h('small', null, r.priority)),
    h('td.wide-only', null, r.route),
    h(
      'td',
      null,
      h('span.by', { data: { kind: answer } }, answer === 'none' ? 'no answer' : answer === 'mixed' ? 'draft, target' : answer),
      h('small.narrow-only', null, verdict(r)[0]),
    ),
    h('td.wide-only', null, verdict(r)),
    h('td.number.wide-only', null, r.code >= 400 ? h('b.state', { data: { tone: 'bad' }, title: r.error || null }, r.code) : r.code),
    h('td.number.wide-only', { title: `${number(r.tokens.prompt)} prompt tokens, ${number(out)} answer tokens` }, number(out)),
    h('td.number.wide-only', null, millis(firstByte(r))),
    h('td.number', null, millis(r.ms.total)),
    h('td.number.wide-only', null, usd(r.usd)),
  );
}

function verdict(r) {
  if (r.code >= 400) return [r.error || `status ${r.code}`];
  const why = r.verdict?.reason ?? r.plan?.reason;
  return [r.acceptance || 'no draft', why && h('small', { title: why }, short(why.replaceAll('_', ' '), 26))];
}
