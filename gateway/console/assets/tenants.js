// Tenants: what they used, their rights and budgets.

import { get, poll } from './api.js';
import { fill, h, say, table } from './dom.js';
import { many, number, usd } from './format.js';
import { mountUsage } from './usage.js';

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  let all = [];
  const search = h('input', { type: 'search', placeholder: 'Filter by name', 'aria-label': 'Filter tenants by name', on: { input: () => draw() } });
  const problem = h('p.problem', { role: 'alert' }),
    count = h('p.muted'),
    body = h('div');
  root.append(h('h1', null, 'Tenants'));
  const usage = mountUsage(root, ready);
  root.append(h('section.block', null, h('h2', null, 'Limits and budgets'), h('div.filters', null, search, count), problem, body));
  const draw = () => {
    const shown = all.filter((t) => t.tenant.toLowerCase().includes(search.value.trim().toLowerCase()));
    say(count, many(shown.length, 'tenant'));
    fill(
      body,
      shown.length
        ? table('Tenants', [{ label: 'Tenant' }, { label: 'Rights' }], shown.map(tenantRow), { class: 'tenants' })
        : h('p.none', null, all.length ? 'No tenant matches this filter.' : 'No tenants yet. List them under tenants in the configuration.'),
    );
  };
  const asking = poll(
    3000,
    async (signal) => {
      all = (await get('tenants', signal)).tenants;
    },
    (err) => {
      say(problem, err ? err.message : '');
      if (!err) draw();
    },
  );
  return () => {
    usage();
    asking.stop();
  };
}

function tenantRow(t) {
  return h('tr', { test: 'tenant-row', data: { tenant: t.tenant } }, h('th', { scope: 'row' }, t.tenant), h('td', null, limits(t)));
}

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
    t.name_applications && 'names its applications',
    t.forget_responses && 'answers are not stored',
    t.trace_content && 'traced with content',
  ].filter(Boolean);
  return words.length ? words.join(' · ') : 'no limits';
}

/** How much of a budget is spent, in words. */
function budget(b) {
  const amount = b.unit === 'usd' ? usd : (n) => `${number(n)} tokens`;
  return `${amount(b.used + b.reserved)} of ${amount(b.limit)} per ${b.per}${b.shared ? '' : ' (without Redis)'}`;
}
