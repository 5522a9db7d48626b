// Tenants: limits, and usage since this replica started.

import { get, poll } from './api.js';
import { fill, h, say, table } from './dom.js';
import { many, number, seconds, usd } from './format.js';

const every = [
  ['tenant', 'Tenant'],
  ['in_flight', 'In flight'],
  ['requests', 'Requests'],
  ['cached', 'From cache'],
  ['accepted', 'Drafts served'],
  ['shed', 'Shed'],
  ['limited', 'Rate limited'],
  ['failed', 'Failed'],
  ['tokens', 'Tokens'],
  ['usd', 'Cost'],
  ['last_seconds', 'Last seen'],
];
const known = { tokens: (t) => t.prompt_tokens + t.completion_tokens };
const valueOf = (t, key) => (known[key] ? known[key](t) : t[key]);

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  let all = [],
    omitted = 0,
    by = 'requests',
    up = false;
  const search = h('input', { type: 'search', placeholder: 'Filter by name', 'aria-label': 'Filter tenants by name', on: { input: () => draw() } });
  const problem = h('p.problem', { role: 'alert' }),
    count = h('p.muted'),
    body = h('div');
  root.append(h('h1', null, 'Tenants'), h('div.filters', null, search, count), problem, body);
  const sortBy = (key) => {
    [by, up] = [key, by === key ? !up : key === 'tenant'];
    draw(key);
  };
  const draw = (focus) => {
    const shown = all
      .filter((t) => t.tenant.toLowerCase().includes(search.value.trim().toLowerCase()))
      .sort((a, b) => compare(valueOf(a, by), valueOf(b, by)) * (up ? 1 : -1));
    say(count, `${many(shown.length, 'tenant')}, since this replica started${omitted ? `; ${number(omitted)} more are not shown` : ''}`);
    const again = focus ?? document.activeElement?.dataset?.sort;
    fill(
      body,
      shown.length
        ? tenantTable(shown, by, up, sortBy)
        : h('p.none', null, all.length ? 'No tenant matches this filter.' : 'No tenants yet. List them under tenants in the configuration, or send a request.'),
    );
    if (again) body.querySelector(`[data-sort="${again}"]`)?.focus();
  };
  const asking = poll(
    3000,
    async (signal) => {
      const told = await get('tenants', signal);
      [all, omitted] = [told.tenants, told.omitted ?? 0];
    },
    (err) => {
      say(problem, err ? err.message : '');
      if (!err) draw();
      ready();
    },
  );
  return asking.stop;
}

const compare = (a, b) => (typeof a === 'string' ? a.localeCompare(b) : (a ?? -1) - (b ?? -1));

function tenantTable(shown, by, up, sortBy) {
  const live = shown.some((t) => t.in_flight !== undefined),
    columns = every.filter(([key]) => key !== 'in_flight' || live);
  const el = table(
    'Tenants',
    columns.map(([key, label]) => ({ label, number: key !== 'tenant' })),
    shown.map((t) => tenantRow(t, live)),
    { class: 'tenants' },
  );
  el.querySelectorAll('th[scope=col]').forEach((th, i) => {
    const [key, label] = columns[i];
    th.setAttribute('aria-sort', key === by ? (up ? 'ascending' : 'descending') : 'none');
    fill(th, h('button.sort', { type: 'button', data: { sort: key }, on: { click: () => sortBy(key) } }, label));
  });
  return el;
}

function tenantRow(t, live) {
  return h(
    'tr',
    { test: 'tenant-row', data: { tenant: t.tenant } },
    h('th', { scope: 'row' }, t.tenant || '(none)', h('small', null, limits(t))),
    live && h('td.number', null, number(t.in_flight)),
    h('td.number', null, number(t.requests)),
    part(t.cached, t.requests),
    part(t.accepted, t.requests),
    trouble(t.shed),
    trouble(t.limited),
    trouble(t.failed),
    h(
      'td.number',
      { title: `${number(t.prompt_tokens)} prompt tokens, ${number(t.completion_tokens)} answer tokens` },
      number(t.prompt_tokens + t.completion_tokens),
    ),
    h('td.number', null, usd(t.usd)),
    h('td.number', null, t.last_seconds == null || t.last_seconds < 0 ? 'never' : `${seconds(Math.round(t.last_seconds))} ago`),
  );
}

const part = (n, of) => h('td.number', { title: of > 0 ? `${Math.round((100 * n) / of)} % of its requests` : null }, number(n));
const trouble = (n) => h('td.number', null, n > 0 ? h('b.state', { data: { tone: 'warn' } }, number(n)) : '0');

/** What a tenant may do, in words. */
function limits(t) {
  const words = [
    t.max_priority && `max. priority ${t.max_priority}`,
    t.rpm > 0 && `${number(t.rpm)} requests/min`,
    t.tpm > 0 && `${number(t.tpm)} tokens/min`,
    t.concurrent > 0 && `${number(t.concurrent)} concurrent`,
    t.models?.length > 0 && `models ${t.models.join(', ')}`,
    ...(t.budgets ?? []).map(budget),
    t.per_tenant_evidence && 'own guarantee',
    t.allow_external && 'may go to hosted fallbacks',
    t.trace_content && 'traced with content',
  ].filter(Boolean);
  return words.length ? words.join(' · ') : t.listed === false ? 'not in the configuration' : 'no limits';
}

/** How much of a budget is spent, in words. */
function budget(b) {
  const amount = b.unit === 'usd' ? usd : (n) => `${number(n)} tokens`;
  return `${amount(b.used + b.reserved)} of ${amount(b.limit)} per ${b.per}${b.shared ? '' : ' (without Redis)'}`;
}
