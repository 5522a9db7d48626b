// Where drafts agree: which applications of a route can run on the small model.

import { get, poll } from './api.js';
import { fill, h, say, table } from './dom.js';
import { number, percent, usd } from './format.js';

const every = 15000; // ms between two readings: a replica reads the whole log of audits for one
const most = 30; // rows; the command and the address have all

const columns = [
  { label: 'Application' },
  { label: 'Drafts per day', number: true, hide: true },
  { label: 'Agreement', number: true, title: 'Share of all its drafts that the target stands by, with the interval of 95 %' },
  { label: 'Served', number: true, title: 'Share of its drafts that the score served, or would have served in mode shadow' },
  { label: 'Disagreed', number: true, hide: true, title: 'Share of the served ones that the target refuses' },
  { label: 'Possible per day', number: true, title: 'What is saved against the target alone if just those drafts are served that the target stands by' },
  { label: 'Audits', number: true, hide: true },
];

/** Shows the applications of all routes. @returns {() => void} its end */
export function mountApplications(root) {
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div');
  root.append(problem, body);
  const asking = poll(
    every,
    async (signal) => draw(body, (await get('risk/applications', signal)).applications),
    (err) => say(problem, err ? err.message : ''),
  );
  return asking.stop;
}

function draw(body, all) {
  const routes = [...new Set(all.map((a) => a.route))];
  return fill(
    body,
    routes.map((route) => {
      const own = all.filter((a) => a.route === route);
      return h(
        'section.block',
        { test: 'applications', data: { route, rows: own.length } },
        h('h2', null, 'Where drafts agree', h('small', null, `${route}, by the audits of the last day`)),
        table(`Applications of ${route}`, columns, own.slice(0, most).map(row), { class: 'applications' }),
        own.length > most && h('p.muted', null, `${number(own.length - most)} more: foregate risk applications --route ${route}`),
      );
    }),
  );
}

function row(a) {
  const g = a.agreement;
  const cells = [
    number(a.drafts_per_day),
    a.audits ? `${percent(g.estimate)} (${percent(g.low)} … ${percent(g.high)})` : '–',
    percent(a.served),
    a.disagreement == null ? '–' : percent(a.disagreement),
    a.usd_per_day != null ? usd(a.usd_per_day) : a.tokens_per_day != null ? `${number(a.tokens_per_day)} tokens` : '–',
    number(a.audits),
  ];
  return h(
    'tr',
    { test: 'application-row', data: { application: a.application, audits: a.audits } },
    h('th', { scope: 'row' }, a.application),
    cells.map((text, i) => h('td', { class: columns[i + 1].hide ? 'number wide-only' : 'number' }, text)),
  );
}
