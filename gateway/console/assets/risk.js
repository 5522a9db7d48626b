// Guarantee: a proven bound on the share of unverified drafts that the target disagrees with.

import { get, poll } from './api.js';
import { fill, h, say } from './dom.js';
import { mountApplications } from './applications.js';
import { mountFrontiers } from './frontier.js';
import { many, number, percent, stamp } from './format.js';

/** Colours of the states of a traffic class. */
const tones = { warmup: 'warn', stopped: 'bad', certified: 'good', uncertified: 'warn', learning: 'warn', infeasible: 'bad' };

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div');
  root.append(
    h('h1', null, 'Guarantee'),
    h(
      'p.lead',
      null,
      'Of the drafts that are served unverified, the target disagrees with at most the maximum disagreement. Audits prove this for each traffic class separately: route, temperature 0 or above, and models.',
    ),
    problem,
    body,
  );
  const applications = mountApplications(root);
  const frontiers = mountFrontiers(root);
  const asking = poll(
    4000,
    async (signal) => draw(body, await get('risk', signal)),
    (err) => {
      say(problem, err ? err.message : '');
      ready();
    },
  );
  return () => {
    asking.stop();
    applications();
    frontiers();
  };
}

function draw(body, { risk: views, refits }) {
  if (!views.length)
    return fill(
      body,
      h(
        'p.none',
        null,
        'No drafts yet. Set speculation.mode of a route to risk or shadow and send requests to it; its traffic classes then appear here.',
      ),
    );
  const routes = [...new Set(views.map((v) => v.route))];
  return fill(
    body,
    routes.map((route) => {
      const own = views.filter((v) => v.route === route),
        limits = [...new Set(own.map((v) => percent(v.max_disagreement)))].join(' or ');
      return h(
        'section.block',
        null,
        h('h2', null, route, h('small', null, `disagreement at most ${limits}, with probability ${percent(1 - own[0].error_probability)}`)),
        refits.filter((f) => f.route === route && f.live > 0).map(event),
        h('ul.kinds', null, own.map(kind)),
      );
    }),
  );
}

/** What the gateway itself has changed, why, and how to go back. */
function event(f) {
  return h(
    'p.event',
    { test: 'score-event', data: { route: f.route, live: f.live } },
    f.since ? `${stamp(new Date(f.since))}: ` : '',
    `Foregate replaced the score by the fitted score v${f.live}, because it was clearly better on drafts that it had not seen, and audits certified it for as many drafts. To go back: `,
    h('a', { href: '#/settings' }, h('code', null, `risk.refit@${f.route} = off`)),
  );
}

function kind(v) {
  return h(
    'li.kind',
    { test: 'risk-row', data: { route: v.route, class: v.traffic_class, state: v.state } },
    h(
      'div.kindhead',
      null,
      h('h3', null, v.traffic_class),
      h('b.state', { data: { tone: tones[v.state] ?? '' } }, v.state),
    ),
    gauge(v),
    facts(v),
  );
}

/** The confidence interval of the disagreement, with the limit. */
function gauge(v) {
  const nothing = v.audits + v.pending === 0;
  const most = nothing ? v.max_disagreement * 2 : Math.min(1, Math.max(v.max_disagreement * 2, Math.min(v.risk_upper, v.max_disagreement * 4))),
    at = (x) => `${Math.min(1, x / most) * 100}%`;
  const text = nothing
    ? 'No audits yet.'
    : `Estimate ${percent(v.risk_estimate)}, between ${percent(v.risk_lower)} and ${percent(v.risk_upper)}; limit ${percent(v.max_disagreement)}.`;
  return h(
    'div.gauge',
    { role: 'img', 'aria-label': text },
    !nothing &&
      h('i.span', { style: { left: at(v.risk_lower), width: `${(Math.min(1, v.risk_upper / most) - Math.min(1, v.risk_lower / most)) * 100}%` } }),
    !nothing && h('i.point', { style: { left: at(v.risk_estimate) } }),
    !nothing && v.risk_bound < most && h('i.bound', { style: { left: at(v.risk_bound) } }),
    h('i.eps', { style: { left: at(v.max_disagreement) } }),
    h('span.epsname', { style: { left: at(v.max_disagreement) } }, `limit ${percent(v.max_disagreement)}`),
    h('span.end', null, percent(most)),
  );
}

function facts(v) {
  const list = [
    ['Disagreement', v.audits ? `${percent(v.risk_estimate)} (${percent(v.risk_lower)} … ${percent(v.risk_upper)})` : 'no audits yet'],
    ['Proven below', v.risk_bound < 1 ? percent(v.risk_bound) : '–'],
    ['Audits', `${number(v.audits)}, ${number(v.bad)} of them bad${v.pending ? `, ${number(v.pending)} pending` : ''}`],
    ['Threshold', v.threshold_nats == null ? 'none, so no drafts are served' : `${number(v.threshold_nats)} nats (${many(v.operating_index, 'certified step')})`],
    ['Expected acceptance', percent(v.expected_acceptance)],
    ['Next threshold', nextWords(v)],
    [
      'Drift',
      v.drift_warned
        ? h('b.state', { data: { tone: 'warn' } }, `suspected (${percent(v.drift_level)} of the alarm level)`)
        : `${percent(v.drift_level)} of the alarm level`,
    ],
    ['Drift alarms', number(v.drift_alarms)],
    ['Warm-up', `${number(v.warmup.served)} of ${many(v.warmup.drafts, 'draft')} served, ${number(v.warmup.bad - v.warmup.open)} of ${many(v.warmup.audits - v.warmup.open, 'audit')} bad`],
  ];
  return h(
    'dl.facts',
    null,
    list.map(([k, what]) => h('div', null, h('dt', null, k), h('dd', null, what))),
  );
}

function nextWords(v) {
  if (v.audits_to_certify == null) return 'not reachable with the current disagreement';
  return `about ${v.scores_wanted > 0 ? `${number(v.scores_wanted - v.scores_learned)} scores and ` : ''}${many(Math.ceil(v.audits_to_certify), 'audit')}`;
}
