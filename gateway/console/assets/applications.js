// Where drafts agree: which applications of a route can run on the small model, how each stands, and by which mode it goes.

import { get, onSession, poll, session } from './api.js';
import { classOf, dialog, field, fill, h, say, select, table } from './dom.js';
import { many, number, percent, stamp, usd } from './format.js';
import { confirmChange } from './settingsedit.js';

const every = 15000; // ms between two readings: a replica reads the whole log of audits for one
const obeyed = 1500; // ms until every replica goes by what was set
const most = 30; // rows; the command and the address have all
const modes = ['off', 'shadow', 'risk', 'verify']; // that may be chosen for one application

/** Colours of the states of an application. */
const tones = { warmup: 'warn', stopped: 'bad', certified: 'good', uncertified: 'warn', learning: 'warn', infeasible: 'bad' };

const columns = [
  { label: 'Application' },
  { label: 'Mode', hide: true, title: 'How its requests are answered: the mode of its route, or one of its own' },
  { label: 'State', hide: true },
  { label: 'Requests per day', number: true, hide: true },
  { label: 'Agreement', number: true, title: 'Share of all its drafts that the target stands by, with the interval of 95 %' },
  { label: 'Served', number: true, hide: true, title: 'Share of its requests whose draft the score served, or would have served in mode shadow' },
  { label: 'Disagreed', number: true, hide: true, title: 'Share of the served ones that the target refuses, and what it is proven to be below' },
  { label: 'Saved per day', number: true, hide: true, title: 'What its served drafts save now against the target alone' },
  { label: 'Possible per day', number: true, title: 'What is saved against the target alone if just those drafts are served that the target stands by' },
  { label: 'Audits', number: true, hide: true },
];

/** Shows the applications of all routes. @returns {() => void} its end */
export function mountApplications(root) {
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div');
  let all = [];
  root.append(problem, body);
  const show = () => {
    if (!body.contains(document.activeElement) || document.activeElement.tagName !== 'SELECT') draw(body, all, () => setTimeout(asking.now, obeyed));
  };
  const asking = poll(
    every,
    async (signal) => {
      all = (await get('risk/applications', signal)).applications;
      show();
    },
    (err) => say(problem, err ? err.message : ''),
  );
  const unheard = onSession(show);
  return () => {
    asking.stop();
    unheard();
  };
}

function draw(body, all, changed) {
  const routes = [...new Set(all.map((a) => a.route))];
  return fill(
    body,
    routes.map((route) => {
      const own = all.filter((a) => a.route === route);
      return h(
        'section.block',
        { test: 'applications', data: { route, rows: own.length } },
        h('h2', null, 'Where drafts agree', h('small', null, `${route}, by the audits of the last day`)),
        h('p', { test: 'applications-first' }, firstWords(own)),
        table(
          `Applications of ${route}`,
          columns,
          own.slice(0, most).map((a) => row(a, changed)),
          { class: 'applications' },
        ),
        own.length > most && h('p.muted', null, `${number(own.length - most)} more: foregate risk applications --route ${route}`),
      );
    }),
  );
}

const nameOf = (a) => a.name || a.application;
const worth = (dollars, tokens) => (dollars != null ? usd(dollars) : tokens != null ? `${number(tokens)} tokens` : '–');
const sum = (rows, of) => rows.reduce((total, a) => total + Math.max(of(a) ?? 0, 0), 0);

/** Which application to move first, and what it saves. The rows are sorted by what is possible. */
function firstWords(rows) {
  const priced = rows.some((a) => a.usd_per_day != null);
  const possible = (a) => (priced ? a.usd_per_day : a.tokens_per_day),
    saved = (a) => (priced ? a.saved_usd_per_day : a.saved_tokens_per_day);
  const tell = (v) => (priced ? usd(v) : `${number(v)} tokens`);
  const total = ` All together save ${tell(sum(rows, saved))} a day of ${tell(sum(rows, possible))} possible.`;
  const first = rows.find((a) => a.mode !== 'risk' && a.application !== 'other' && possible(a) > 0 && a.state !== 'infeasible');
  if (first)
    return [
      'Move first: ',
      h('b', null, nameOf(first)),
      `. The target stands by ${percent(first.agreement.estimate)} of its drafts; to serve those saves about ${tell(possible(first))} a day. `,
      first.state === 'certified'
        ? 'It is certified: in mode risk its drafts are served at once.'
        : first.audits_to_certify != null
          ? `About ${many(Math.ceil(first.audits_to_certify), 'more audit')} certify it.`
          : '',
      total,
    ];
  const next = rows.find((a) => a.state !== 'certified' && a.application !== 'other' && possible(a) > 0);
  return [next && ['Most is still possible with ', h('b', null, nameOf(next)), ` (${tell(possible(next))} a day).`], total];
}

function row(a, changed) {
  const g = a.agreement;
  const toGo = a.audits_to_certify != null && `${many(Math.ceil(a.audits_to_certify), 'audit')} to go`,
    drifted = a.drifted && `drifted ${stamp(new Date(a.drifted))}`;
  const cells = [
    modeCell(a, changed),
    [h('b.state', { data: { tone: tones[a.state] ?? '' } }, a.state), toGo && h('small', null, toGo), drifted && h('small', null, drifted)],
    number(a.drafts_per_day),
    a.audits ? [percent(g.estimate), h('small', null, `${percent(g.low)} … ${percent(g.high)}`)] : '–',
    percent(a.served),
    a.disagreement == null ? '–' : [percent(a.disagreement), a.risk_bound < 1 && h('small', null, `below ${percent(a.risk_bound)}`)],
    worth(a.saved_usd_per_day, a.saved_tokens_per_day),
    worth(a.usd_per_day, a.tokens_per_day),
    number(a.audits),
  ];
  return h(
    'tr',
    { test: 'application-row', data: { application: a.application, audits: a.audits, state: a.state, mode: a.mode } },
    h(
      'th',
      { scope: 'row' },
      nameOf(a),
      a.name && h('small', null, a.application),
      h('small.narrow-only', null, [`mode ${a.mode}, ${a.state}`, toGo, drifted].filter(Boolean).join(', ')),
      session.signedIn &&
        a.application !== 'other' &&
        h('small', null, h('button.link', { type: 'button', test: 'application-name', on: { click: () => rename(a, changed) } }, a.name ? 'Rename' : 'Name')),
    ),
    cells.map((what, i) => h('td', { class: classOf(columns[i + 1]) }, what)),
  );
}

const scopeOf = (a) => `${a.route}#${a.application}`;

/** The mode, which operators choose for this application alone. */
function modeCell(a, changed) {
  if (!session.signedIn || a.application === 'other') return [a.mode, a.own_mode && h('small', null, 'its own')];
  const setting = `speculation.mode@${scopeOf(a)}`;
  const before = a.own_mode ? a.mode : '';
  const options = [['', a.own_mode ? 'as the route' : `${a.mode}, as the route`], ...modes.map((m) => [m, m])];
  if (before && !modes.includes(before)) options.push([before, before]);
  const choose = (e) => {
    const to = e.target.value;
    e.target.value = before;
    e.target.blur();
    confirmChange(`Mode of ${nameOf(a)}`, to ? { set: { [setting]: to } } : { unset: [setting] }, 'settings', changed);
  };
  return select({ test: 'application-mode', 'aria-label': `Mode of ${nameOf(a)}`, on: { change: choose } }, options, before);
}

/** Asks for a name, or takes the name away. */
function rename(a, changed) {
  const setting = `application.name@${scopeOf(a)}`;
  const input = h('input', { type: 'text', test: 'application-name-input', value: a.name, maxlength: '64', pattern: '[A-Za-z0-9._:\\-]*' });
  const submit = (e) => {
    e.preventDefault();
    box.close();
    const name = input.value.trim();
    if (name !== a.name) confirmChange(`Name of ${a.application}`, name ? { set: { [setting]: name } } : { unset: [setting] }, 'settings', changed);
  };
  const buttons = h(
    'div.buttons',
    null,
    h('button.quiet', { type: 'button', on: { click: () => box.close() } }, 'Cancel'),
    h('button', { type: 'submit', test: 'application-name-submit' }, 'Review change'),
  );
  const box = dialog(
    'application-name-dialog',
    `Name of ${a.application}`,
    h('form', { on: { submit } }, field('Name', input, 'Letters, digits and . _ : -. Empty: none.'), buttons),
  );
  input.focus();
}
