// The part of the page of tenants that tells what they used and what it cost, by UTC day, over all replicas.

import { get, poll, text } from './api.js';
import { fill, h, say, table } from './dom.js';
import { many, number, usd } from './format.js';

const most = 500; // rows that are shown; the file has all
const groups = [
  ['tenant', 'Tenant'],
  ['route', 'Route'],
  ['day', 'Day'],
];
const results = (r) =>
  [
    [r.refused, 'refused'],
    [r.limited, 'rate limited'],
    [r.shed, 'shed'],
    [r.failed, 'failed'],
    [r.client_left, 'left by the client'],
  ]
    .map(([n, what]) => `${number(n)} ${what}`)
    .join(', ');
const shared = (r) => `${number(r.cached_answers)} cached, ${number(r.coalesced_answers)} shared with an identical request`;
const counts = [
  ['Requests', (r) => number(r.requests), results],
  ['Not OK', (r) => number(r.requests - r.ok)],
  ['From cache', (r) => number(r.cached_answers + r.coalesced_answers), shared],
  ['Prompt tokens', (r) => number(r.prompt_tokens)],
  ['Answer tokens', (r) => number(r.completion_tokens)],
  ['By drafts', (r) => number(r.draft_tokens), () => 'answer tokens that drafts supplied'],
  ['Cost', (r) => usd(r.usd), (r) =>
    `${usd(r.draft_usd)} at the draft, ${usd(r.target_usd)} at the target, ${usd(r.audit_usd)} for audits; ${number(r.unpriced_requests)} requests without a known price`],
  ['Saved by drafts', (r) => usd(r.saved_by_drafts_usd), (r) => `of ${usd(r.target_alone_usd)} at the target alone`],
  ['Saved by cache', (r) => usd(r.saved_by_cache_usd)],
];
const kept = { from: '', to: '', by: ['tenant'] }; // over the opening of another page, and coming back

/** Shows the part. @returns {() => void} its end */
export function mountUsage(root, ready) {
  const problem = h('p.problem', { role: 'alert' }),
    about = h('p.muted', { test: 'usage-about' }),
    body = h('div');
  const changed = () => {
    say(problem, '');
    asking.now();
  };
  const days = {};
  const day = (key, label) => {
    const input = h('input', {
      type: 'text',
      size: 10,
      inputmode: 'numeric',
      test: `usage-${key}`,
      'aria-label': label,
      value: kept[key],
      on: {
        change: () => {
          kept[key] = input.value.trim();
          changed();
        },
      },
    });
    days[key] = input;
    return h('label', null, `${key} `, input);
  };
  const by = groups.map(([key, label]) => {
    const box = h('input', {
      type: 'checkbox',
      test: `usage-by-${key}`,
      checked: kept.by.includes(key),
      on: {
        change: () => {
          const wanted = groups.map(([name]) => name).filter((name) => (name === key ? box.checked : kept.by.includes(name)));
          if (!wanted.length) box.checked = true; // rows are of something
          else {
            kept.by = wanted;
            changed();
          }
        },
      },
    });
    return h('label.check', null, box, label.toLowerCase());
  });
  const download = async () => {
    try {
      const csv = new Blob([await text(path('csv'))], { type: 'text/csv' });
      const link = h('a', { href: URL.createObjectURL(csv), download: 'foregate-usage.csv' });
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (err) {
      say(problem, err.message);
    }
  };
  const file = h('button.quiet', { type: 'button', test: 'usage-csv', on: { click: download } }, 'Download CSV');
  const part = h(
    'section.block',
    null,
    h('h2', null, 'Usage'),
    h('div.filters', null, day('from', 'First UTC day'), day('to', 'Last UTC day'), h('span.muted', null, 'by'), by, file, about),
    problem,
    body,
  );
  root.append(part);
  let told = null;
  const asking = poll(
    10000,
    async (signal) => {
      told = await get(path(), signal);
    },
    (err) => {
      say(problem, err ? err.message : '');
      if (!err) {
        for (const [key, input] of Object.entries(days)) input.placeholder = told[key];
        say(about, scope(told));
        fill(body, told.rows.length ? usageTable(told) : h('p.none', null, 'Nothing was used on these days.'));
      }
      ready();
    },
  );
  return asking.stop;
}

/** The address of what is asked for. */
function path(format) {
  const q = new URLSearchParams();
  if (kept.from) q.set('from', kept.from);
  if (kept.to) q.set('to', kept.to);
  q.set('by', kept.by.join(','));
  if (format) q.set('format', format);
  return `usage?${q}`;
}

/** What the numbers are of, in words. */
function scope(told) {
  const words = [
    `${told.from} to ${told.to}, days of UTC, both included`,
    told.scope === 'replica' ? 'of this replica alone: there is no Redis' : 'of all replicas, at most some seconds old',
  ];
  if (told.since) words.push(`since the start at ${told.since.slice(0, 16).replace('T', ' ')} UTC`);
  if (told.rows.length > most) words.push(`${many(told.rows.length - most, 'more row')} in the CSV file`);
  if (told.damaged_fields) words.push(`${many(told.damaged_fields, 'field')} in Redis not readable and not counted`);
  return `${words.join('; ')}.`;
}

function usageTable(told) {
  const by = groups.filter(([key]) => told.by.includes(key));
  const cells = (row) => counts.map(([, value, title]) => h('td.number', { title: title?.(row) }, value(row)));
  const line = (row) =>
    h(
      'tr',
      { test: 'usage-row', data: { tenant: row.tenant, route: row.route, day: row.day, requests: row.requests } },
      by.map(([key], i) => (i ? h('td', null, row[key]) : h('th', { scope: 'row' }, row[key] || '(none)'))),
      cells(row),
    );
  const total = h(
    'tr.total',
    { test: 'usage-total', data: { requests: told.total.requests } },
    h('th', { scope: 'row', colspan: by.length }, 'Total'),
    cells(told.total),
  );
  const columns = [...by.map(([, label]) => ({ label })), ...counts.map(([label]) => ({ label, number: true }))];
  return table('Usage', columns, [...told.rows.slice(0, most).map(line), total]);
}
