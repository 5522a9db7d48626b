// A request's timeline as bars: cache, queue, draft, checks, target, and the events between.

import { h } from './dom.js';
import { millis } from './format.js';
import { answeredBy, firstByte, unanswered } from './receipts.js';

/**
 * What a request spent its time on, in the order it began.
 * Times are milliseconds after the request came.
 * @param {object} r receipt
 * @returns {{kind: string, name: string, at: number, ms: number, first?: number, note?: string, failed?: boolean}[]}
 */
export function stepsOf(r) {
  const m = r.ms,
    began = m.cascade_start,
    steps = [];
  const before = m.cache + m.limits;
  // The cache is asked, then the limits, then the cascade begins; where it does not, the cache is the first there is.
  const from = began > 0 ? Math.max(0, began - before) : 0;
  if (began > before) steps.push({ kind: 'front', name: 'request checks', at: 0, ms: began - before, note: 'reading, validation, coalescing' });
  if (m.cache > 0) steps.push({ kind: 'cache', name: 'cache', at: from, ms: m.cache, note: r.cache });
  if (m.limits > 0) steps.push({ kind: 'limits', name: 'limits', at: from + m.cache, ms: m.limits });
  for (const t of r.attempts ?? []) steps.push(...attemptOf(t, began));
  for (const c of r.checks ?? [])
    steps.push({
      kind: 'check',
      name: `check by ${c.scorer}`,
      at: began + c.at_ms,
      ms: c.ms,
      note: `${c.pass ? 'pass' : 'fail'}: ${c.reason.replaceAll('_', ' ')}`,
    });
  if (!r.attempts?.length && r.ms.total > before)
    steps.push({
      kind: 'answer',
      name: unanswered(r) ? 'refusal' : answeredBy(r) === 'cache' ? 'answer from the cache' : 'answer',
      at: from + before,
      ms: r.ms.total - from - before,
      note: r.error || r.cache || '',
      failed: unanswered(r),
    });
  return steps
    .map((s, i) => [s, i])
    .sort(([a, i], [b, j]) => a.at - b.at || i - j)
    .map(([s]) => s);
}

function attemptOf(t, began) {
  const steps = [],
    at = began + t.at_ms;
  if (t.queued_ms > 0)
    steps.push({ kind: 'queue', name: 'queue', at: Math.max(0, at - t.queued_ms), ms: t.queued_ms, note: `for capacity at ${t.pool}` });
  const wrong = t.failed || t.broken_off;
  steps.push({
    kind: t.role,
    name: { draft: 'draft', target: 'target', score: 'score', tokenize: 'tokenize' }[t.role] ?? t.role,
    at,
    ms: t.ms,
    first: t.first_token_ms > 0 ? t.first_token_ms : undefined,
    note: `${t.pool}/${t.backend}${wrong ? `: ${wrong.replaceAll('_', ' ')}` : ''}`,
    failed: Boolean(wrong),
  });
  return steps;
}

/** Events without a duration. */
function momentsOf(r) {
  const moments = [],
    first = firstByte(r);
  if (first !== null) moments.push({ kind: 'client-first', name: 'first byte to the client', at: first });
  if (r.verdict) moments.push({ kind: 'verdict', name: `verdict: ${r.verdict.reason.replaceAll('_', ' ')}`, at: r.ms.cascade_start + r.verdict.at_ms });
  for (const t of r.continuations ?? [])
    moments.push({ kind: 'continuation', name: `continued: ${t.reason.replaceAll('_', ' ')}`, at: r.ms.cascade_start + t.at_ms });
  return moments;
}

/** The waterfall, a table whose last column is drawn. */
export function waterfall(r) {
  const steps = stepsOf(r),
    moments = momentsOf(r);
  const most = Math.max(r.ms.total, ...steps.map((s) => s.at + s.ms), ...moments.map((m) => m.at), 0.001),
    at = (v) => `${(100 * v) / most}%`;
  const rows = [...steps.map((s) => ({ at: s.at, row: stepRow(s, at) })), ...moments.map((m) => ({ at: m.at, row: momentRow(m, at) }))]
    .sort((a, b) => a.at - b.at)
    .map((x) => x.row);
  return h(
    'div.scroll',
    { role: 'region', tabindex: '0', 'aria-label': 'Timeline' },
    h(
      'table.waterfall',
      { test: 'waterfall' },
      h('caption.unseen', null, `Where the request's ${millis(r.ms.total)} went`),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          h('th', { scope: 'col' }, 'Step'),
          h('th.number', { scope: 'col' }, 'Start'),
          h('th.number', { scope: 'col' }, 'Duration'),
          h('th', { scope: 'col' }, h('span.unseen', null, 'Bar'), ruler(most)),
        ),
      ),
      h('tbody', null, rows),
    ),
  );
}

/** Four times along the top. */
function ruler(most) {
  return h(
    'span.ruler',
    { 'aria-hidden': 'true' },
    [0, 0.25, 0.5, 0.75, 1].map((part) => h('i', { style: { left: `${part * 100}%` } }, part === 0 ? '0' : millis(most * part))),
  );
}

function stepRow(s, at) {
  const first =
    s.first !== undefined &&
    h('i.mark', {
      test: 'waterfall-mark',
      data: { kind: 'first' },
      title: `first token after ${millis(s.first)}`,
      style: { left: at(s.at + s.first) },
    });
  return h(
    'tr',
    null,
    h(
      'th',
      { scope: 'row' },
      s.name,
      s.note && h('small', null, s.note),
      s.first !== undefined && h('small', null, `first token after ${millis(s.first)}`),
    ),
    h('td.number', null, millis(s.at)),
    h('td.number', null, millis(s.ms)),
    h(
      'td.lane',
      null,
      h(
        'div.track-box',
        null,
        h('i.step', {
          test: 'waterfall-bar',
          data: { kind: s.kind, failed: s.failed ? '' : null },
          title: `${s.name}: ${millis(s.ms)}`,
          style: { left: at(s.at), width: at(s.ms) },
        }),
        first,
      ),
    ),
  );
}

function momentRow(m, at) {
  return h(
    'tr.moment',
    null,
    h('th', { scope: 'row' }, m.name),
    h('td.number', null, millis(m.at)),
    h('td.number', null, ''),
    h(
      'td.lane',
      null,
      h('div.track-box', null, h('i.mark', { test: 'waterfall-mark', data: { kind: m.kind }, title: m.name, style: { left: at(m.at) } })),
    ),
  );
}
