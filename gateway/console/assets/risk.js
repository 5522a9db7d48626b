// The promise: of the drafts served unverified, the share that the target would have refused.

import { get, poll } from './api.js';
import { fill, h, say } from './dom.js';
import { many, number, percent, seconds } from './format.js';
import { phaseTones } from './standing.js';

const meanings = {
  warmup: 'Nothing is certified yet. What is served now is audited, and no part of the promise.',
  stopped: 'Too many of the drafts that its warm-up served were wrong: the target answers, and audits go on.',
  certified: 'Drafts are served by a threshold of its own.',
  inherits: 'It has no threshold of its own, and goes by that of the whole route.',
  uncertified: 'Audits do not suffice yet: the target answers.',
  learning: 'Scores are collected to place the thresholds by: the target answers.',
  infeasible: 'Audits say that no threshold keeps the promise: the target answers.',
};
const cohorts = { conf: 'on the draft’s own score', head: 'after the target stood by its first tokens' };

/** Shows the page. @returns {() => void} its end */
export function mount(root, { ready }) {
  const problem = h('p.problem', { role: 'alert' }),
    body = h('div');
  root.append(
    h('h1', null, 'The promise'),
    h(
      'p.lead',
      null,
      'Of the drafts that are served unverified, at most the promised share would have been refused by the target. Each kind of request is proven by audits of its own.',
    ),
    problem,
    body,
  );
  const asking = poll(
    4000,
    async (signal) => draw(body, (await get('risk', signal)).risk),
    (err) => {
      say(problem, err ? err.message : '');
      ready();
    },
  );
  return asking.stop;
}

function draw(body, views) {
  if (!views.length)
    return fill(
      body,
      h(
        'p.none',
        null,
        'No kind of request has come in the modes risk or shadow, so no draft is certified yet, and none is served unverified by them.',
      ),
    );
  const routes = [...new Set(views.map((v) => v.route))];
  return fill(
    body,
    routes.map((route) => {
      const own = views.filter((v) => v.route === route);
      return h(
        'section.block',
        null,
        h('h2', null, route, h('small', null, `at most ${percent(own[0].max_wrong_rate)}, except with probability ${percent(own[0].error_probability)}`)),
        h('ul.kinds', null, own.map(kind)),
      );
    }),
  );
}

function kind(v) {
  return h(
    'li.kind',
    { test: 'risk-row', data: { route: v.route, class: v.traffic_class, cohort: v.cohort, state: v.state } },
    h(
      'div.kindhead',
      null,
      h('h3', null, v.traffic_class),
      h('span.muted', null, cohorts[v.cohort] ?? v.cohort),
      h('b.state', { data: { tone: phaseTones[v.state] ?? '' } }, v.state),
    ),
    h('p.about', null, meanings[v.state] ?? ''),
    v.says && h('p.says', { test: 'risk-says' }, v.says),
    gauge(v),
    facts(v),
  );
}

/** The interval of the risk on a scale that shows the promise. */
function gauge(v) {
  const nothing = v.audits + v.pending === 0;
  const most = nothing ? v.max_wrong_rate * 2 : Math.min(1, Math.max(v.max_wrong_rate * 2, Math.min(v.risk_upper, v.max_wrong_rate * 4))),
    at = (x) => `${Math.min(1, x / most) * 100}%`;
  const text = nothing
    ? 'No audit yet.'
    : `Estimate ${percent(v.risk_estimate)}, between ${percent(v.risk_lower)} and ${percent(v.risk_upper)}; promised ${percent(v.max_wrong_rate)}.`;
  return h(
    'div.gauge',
    { role: 'img', 'aria-label': text },
    !nothing &&
      h('i.span', { style: { left: at(v.risk_lower), width: `${(Math.min(1, v.risk_upper / most) - Math.min(1, v.risk_lower / most)) * 100}%` } }),
    !nothing && h('i.point', { style: { left: at(v.risk_estimate) } }),
    !nothing && v.risk_bound < most && h('i.bound', { style: { left: at(v.risk_bound) } }),
    h('i.eps', { style: { left: at(v.max_wrong_rate) } }),
    h('span.epsname', { style: { left: at(v.max_wrong_rate) } }, `promised ${percent(v.max_wrong_rate)}`),
    h('span.end', null, percent(most)),
  );
}

function facts(v) {
  const list = [
    ['Estimate', v.audits ? `${percent(v.risk_estimate)} (${percent(v.risk_lower)} … ${percent(v.risk_upper)})` : 'no audit yet'],
    ['Proven below', v.risk_bound < 1 ? percent(v.risk_bound) : 'nothing'],
    ['Audits', `${number(v.audits)}, of which ${number(v.bad)} bad${v.pending ? `, ${number(v.pending)} pending` : ''}`],
    ['Threshold', v.threshold_nats == null ? 'none: nothing is served' : `${number(v.threshold_nats)} nats, ${many(v.operating_index, 'step')} down`],
    ['Drafts it would serve', percent(v.expected_acceptance)],
    ['To the next threshold', nextWords(v)],
    [
      'Drift',
      v.drift_warned
        ? h('b.state', { data: { tone: 'warn' } }, `suspected (${percent(v.drift_level)} of the alarm)`)
        : `${percent(v.drift_level)} of the alarm`,
    ],
    ['Alarms so far', number(v.drift_alarms)],
  ];
  if (v.warmup) list.push(...warmupFacts(v.warmup));
  if (v.scores_wanted > 0)
    list.splice(2, 0, [
      'Scores collected',
      h(
        'span',
        null,
        `${number(v.scores_learned)} of ${number(v.scores_wanted)} `,
        h('progress', { max: v.scores_wanted, value: v.scores_learned, 'aria-label': 'Scores collected' }),
      ),
    ]);
  return h(
    'dl.facts',
    null,
    list.map(([k, what]) => h('div', null, h('dt', null, k), h('dd', null, what))),
  );
}

/** What happened in the warm-up. @param {object} w */
const warmupFacts = (w) => [
  ['Warm-up', warmupEnds[w.ended] ?? `${w.serves ? 'serves drafts' : 'in shadow'}, ${seconds(w.seconds_left)} left at most`],
  ['Served in the warm-up', `${number(w.served)} of ${many(w.drafts, 'draft')}`],
  [
    'Wrong among those served',
    w.audits ? `${percent(w.wrong_share)} (${percent(w.wrong_lower)} … ${percent(w.wrong_upper)}), ${number(w.bad)} of ${many(w.audits, 'audit')}` : 'no audit yet',
  ],
];
const warmupEnds = {
  certified: 'over: a threshold was certified',
  infeasible: 'over: found infeasible',
  wrong: 'over: too many drafts were wrong',
  time: 'over by risk.warmup_duration',
};

function nextWords(v) {
  if (v.audits_to_certify == null) return 'out of reach as it looks';
  if (v.audits_to_certify <= 0) return 'no more audits: it is due';
  const pace = v.audits_per_minute > 0 ? `, ${number(v.audits_per_minute)} a minute` : '',
    scores = v.scores_wanted > 0 ? `${number(v.scores_wanted - v.scores_learned)} scores and ` : '';
  return `about ${scores}${number(Math.ceil(v.audits_to_certify))} audits${pace}${v.seconds_to_certify == null ? '' : `: ${seconds(v.seconds_to_certify)}`}`;
}
