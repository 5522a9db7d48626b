// What both scripts share: settings from the environment, a load that is the
// same in every run, one way to ask, and one summary.
//
// k6's own HTTP client reads a whole response before it returns, streams too. So
// the time to the first token is not seen; its stand-in is timings.waiting, the
// time to the first byte of the response. The gateway sends that together with
// the first token of a stream, so the two are close; other servers may send
// headers earlier.

import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const TIERS = ['draft', 'target', 'mixed', 'unknown'];

export const settings = {
  url: (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/+$/, ''),
  model: __ENV.MODEL || 'llama-3',
  key: __ENV.API_KEY || '',
  rate: number('RATE', 5), // arrivals per second
  duration: __ENV.DURATION || '1m',
  maxVUs: number('MAX_VUS', 500),
  seed: number('SEED', 1),
  maxTokens: number('MAX_TOKENS', 128),
  stream: __ENV.STREAM !== '0',
  gateway: (__ENV.EXPECT || 'gateway') === 'gateway', // or a bare backend, which sets no headers
  priorities: weights(__ENV.PRIORITY_MIX || ''), // high=1,normal=8,low=1
  tenants: tenants(__ENV.TENANTS || ''), // acme,globex or acme:key1,globex:key2
  out: __ENV.OUT || 'summary.json',
};

function number(name, otherwise) {
  const v = Number(__ENV[name] || otherwise);
  if (!Number.isFinite(v) || v < 0) throw new Error(`${name} is no number from 0 up: ${__ENV[name]}`);
  return v;
}

function weights(text) {
  return text.split(',').filter((part) => part !== '').map((part) => {
    const [name, weight = '1'] = part.split('=');
    if (!['high', 'normal', 'low'].includes(name) || !(Number(weight) >= 0)) {
      throw new Error(`PRIORITY_MIX: ${part} is not high, normal or low with a weight, as high=1`);
    }
    return { name, weight: Number(weight) };
  });
}

function tenants(text) {
  return text.split(',').filter((part) => part !== '').map((part) => {
    const [name, ...key] = part.split(':');
    return { name, weight: 1, key: key.join(':') };
  });
}

// arrivals are the options of an open model: requests come at their rate however
// slow answers are. An iteration is thought to last so many seconds; a VU is
// made ready for each that is under way then.
export function arrivals(scenario, lasts) {
  const ready = number('VUS', settings.rate * lasts);
  return {
    scenarios: {
      [scenario]: {
        executor: 'constant-arrival-rate',
        rate: Math.max(Math.round(settings.rate * 60), 1),
        timeUnit: '1m',
        duration: settings.duration,
        preAllocatedVUs: Math.max(Math.min(Math.ceil(ready), settings.maxVUs), 1),
        maxVUs: settings.maxVUs,
        gracefulStop: __ENV.GRACE || '2m',
      },
    },
    thresholds: {
      foregate_ttft: [`p(95)<${number('TTFT_P95', 2000)}`],
      foregate_e2e: [`p(95)<${number('E2E_P95', 60000)}`],
      foregate_errors: [`rate<=${number('MAX_ERRORS', 0.01)}`],
      foregate_shed: [`rate<=${number('MAX_SHED', 0.05)}`],
      checks: ['rate>0.99'],
      dropped_iterations: ['count<1'], // else the load was not the one asked for: raise VUS and MAX_VUS
    },
    summaryTrendStats: ['min', 'med', 'avg', 'p(95)', 'p(99)', 'max', 'count'],
  };
}

// random makes a source of numbers in [0, 1) that depends on SEED and n alone.
export function random(n) {
  let a = (settings.seed * 0x9e3779b1 + n * 0x85ebca6b) >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// pick chooses by weight; undefined if there is nothing to choose from.
export function pick(list, rng) {
  let left = rng() * list.reduce((sum, one) => sum + one.weight, 0);
  for (const one of list) {
    left -= one.weight;
    if (left < 0) return one;
  }
  return list[list.length - 1];
}

const SYLLABLES = 'ba ce di fo gu la me ni po ru sa te vi wo xa ye zi ko mu ta'.split(' ');

// words is a text of n made-up words.
export function words(n, rng) {
  const out = [];
  for (let i = 0; i < n; i++) {
    let word = '';
    for (let j = 1 + Math.floor(rng() * 3); j > 0; j--) word += SYLLABLES[Math.floor(rng() * SYLLABLES.length)];
    out.push(word);
  }
  return out.join(' ');
}

// caller chooses a tenant and a priority, and gives the headers that say so.
export function caller(rng) {
  const headers = { 'Content-Type': 'application/json' };
  const tenant = pick(settings.tenants, rng);
  const priority = pick(settings.priorities, rng);
  const key = (tenant && tenant.key) || settings.key;
  if (key) headers.Authorization = `Bearer ${key}`;
  if (tenant) headers['X-Tenant-ID'] = tenant.name;
  if (priority) headers['X-Priority'] = priority.name;
  return headers;
}

const ttft = new Trend('foregate_ttft', true);
const e2e = new Trend('foregate_e2e', true);
const requests = new Counter('foregate_requests');
const answered = new Counter('foregate_answered');
const tokens = new Counter('foregate_tokens');
const fromDraft = new Counter('foregate_tokens_from_draft');
const fromTarget = new Counter('foregate_tokens_from_target');
const shed = new Rate('foregate_shed');
const limited = new Rate('foregate_limited');
const errors = new Rate('foregate_errors');
const accepted = new Rate('foregate_accepted'); // of drafts that were judged
const escalated = new Counter('foregate_escalated');
const cacheHits = new Rate('foregate_cache_hits'); // of answers that say something of the cache
const byTier = {};
for (const tier of TIERS) {
  byTier[tier] = {
    ttft: new Trend(`foregate_ttft_${tier}`, true),
    answers: new Counter(`foregate_answers_${tier}`),
    tokens: new Counter(`foregate_tokens_${tier}`),
  };
}

// ask sends one request, measures it, and gives what came: {ok, text}.
export function ask(messages, headers, name) {
  const body = { model: settings.model, messages, max_tokens: settings.maxTokens, temperature: 0, stream: settings.stream };
  if (settings.stream) body.stream_options = { include_usage: true };
  const res = http.post(`${settings.url}/v1/chat/completions`, JSON.stringify(body), {
    headers,
    timeout: __ENV.TIMEOUT || '10m',
    tags: { name },
    responseCallback: http.expectedStatuses(200, 429, 503), // these are answers too, of a gateway under load
  });
  requests.add(1);
  const said = res.status === 200 ? read(res.body) : { text: '', tokens: 0, whole: false };
  const isShed = res.status === 503 && header(res, 'X-Shed-Reason') !== '';
  const ok = res.status === 200 && said.whole;
  shed.add(isShed);
  limited.add(res.status === 429);
  errors.add(!ok && !isShed);
  if (ok) answer(res, said);
  verify(res, said, isShed);
  return { ok, text: said.text };
}

// answer measures what came whole.
function answer(res, said) {
  const told = said.tier || header(res, 'X-Tier'); // headers of a stream are from its first byte
  const tier = TIERS.includes(told) ? told : 'unknown';
  const total = res.timings.blocked + res.timings.connecting + res.timings.tls_handshaking + res.timings.duration;
  const first = total - res.timings.receiving;
  answered.add(1);
  ttft.add(first);
  e2e.add(total);
  tokens.add(said.tokens);
  fromDraft.add(said.fromDraft);
  fromTarget.add(said.fromTarget);
  byTier[tier].ttft.add(first);
  byTier[tier].answers.add(1);
  byTier[tier].tokens.add(said.tokens);
  const verdict = said.verdict || header(res, 'X-Acceptance').split(';')[0];
  if (verdict === 'accepted' || verdict === 'rejected') accepted.add(verdict === 'accepted');
  if (verdict === 'rejected') escalated.add(1);
  const cache = header(res, 'X-Cache');
  if (cache !== '') cacheHits.add(cache === 'HIT');
}

// verify checks the shape of a response. A refusal is well formed if it says
// when to come back.
function verify(res, said, isShed) {
  if (isShed || res.status === 429) {
    check(res, { 'a refusal has Retry-After': () => header(res, 'Retry-After') !== '' });
    return;
  }
  const checks = {
    'status is 200': () => res.status === 200,
    'the answer is whole': () => said.whole,
    'the answer has text': () => said.text !== '',
  };
  if (settings.gateway && res.status === 200) {
    const cache = header(res, 'X-Cache');
    checks['X-Tier is draft, target or mixed'] = () => ['draft', 'target', 'mixed'].includes(header(res, 'X-Tier')) || cache === 'COALESCED';
    checks['X-Acceptance is accepted, rejected or bypassed'] = () =>
      ['accepted', 'rejected', 'bypassed'].includes(header(res, 'X-Acceptance').split(';')[0]) || cache === 'COALESCED';
    checks['X-Cache, if set, is a known word'] = () => ['', 'HIT', 'MISS', 'BYPASS', 'COALESCED'].includes(cache);
    checks['X-Request-ID is set'] = () => header(res, 'X-Request-ID') !== '';
  }
  check(res, checks);
}

// header finds a header whatever its case.
function header(res, name) {
  for (const key in res.headers) {
    if (key.toLowerCase() === name.toLowerCase()) return res.headers[key];
  }
  return '';
}

// read takes the text and the tokens out of an answer, streamed or not.
function read(body) {
  const out = { text: '', tokens: 0, fromDraft: 0, fromTarget: 0, tier: '', verdict: '', whole: false };
  try {
    if (!settings.stream) {
      take(JSON.parse(body), out);
      out.whole = out.ended === true;
      return out;
    }
    for (const line of String(body).split('\n')) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice(5).trim();
      if (data === '[DONE]') out.whole = out.ended === true;
      else take(JSON.parse(data), out);
    }
  } catch (err) {
    out.whole = false;
  }
  return out;
}

// take adds a chunk, or a whole answer, to what was read.
function take(chunk, out) {
  if (chunk.usage) out.tokens = chunk.usage.completion_tokens || 0;
  if (chunk.foregate) { // the gateway's last word on where the tokens came from
    out.fromDraft = chunk.foregate.accepted_tokens || 0;
    out.fromTarget = chunk.foregate.target_tokens || 0;
    out.tier = chunk.foregate.tier || '';
    out.verdict = chunk.foregate.acceptance || '';
  }
  for (const choice of chunk.choices || []) {
    out.text += (choice.delta || choice.message || {}).content || '';
    if (choice.finish_reason) out.ended = true;
  }
}

// summary writes what was measured in the words of cmd/loadtest's JSON, as far
// as a client can know it, and prints the same.
export function summary(data, scenario) {
  const of = (metric, value) => {
    const v = data.metrics[metric] && data.metrics[metric].values[value];
    return Number.isFinite(v) ? v : 0;
  };
  const seconds = data.state.testRunDurationMs / 1000;
  const row = {
    name: __ENV.NAME || 'k6',
    requests: of('foregate_requests', 'count'),
    errors: of('foregate_errors', 'passes'),
    shed: of('foregate_shed', 'passes'),
    escalated: of('foregate_escalated', 'count'),
    cached: of('foregate_cache_hits', 'passes'),
    ttft_p50_ms: of('foregate_ttft', 'med'),
    ttft_p95_ms: of('foregate_ttft', 'p(95)'),
    ttft_p99_ms: of('foregate_ttft', 'p(99)'),
    e2e_p50_ms: of('foregate_e2e', 'med'),
    e2e_p95_ms: of('foregate_e2e', 'p(95)'),
    e2e_p99_ms: of('foregate_e2e', 'p(99)'),
    requests_per_s: seconds > 0 ? of('foregate_answered', 'count') / seconds : 0,
    tokens_per_s: seconds > 0 ? of('foregate_tokens', 'count') / seconds : 0,
    acceptance: of('foregate_accepted', 'rate'),
    draft_token_share: share(of('foregate_tokens_from_draft', 'count'), of('foregate_tokens_from_target', 'count')),
    cache_hit_rate: of('foregate_cache_hits', 'passes') / Math.max(of('foregate_answered', 'count'), 1),
  };
  const tiers = {};
  for (const tier of TIERS) {
    tiers[tier] = {
      answers: of(`foregate_answers_${tier}`, 'count'),
      tokens: of(`foregate_tokens_${tier}`, 'count'),
      ttft_p50_ms: of(`foregate_ttft_${tier}`, 'med'),
      ttft_p95_ms: of(`foregate_ttft_${tier}`, 'p(95)'),
    };
  }
  const thresholds = {};
  for (const metric in data.metrics) {
    for (const rule in data.metrics[metric].thresholds || {}) {
      thresholds[`${metric} ${rule}`] = data.metrics[metric].thresholds[rule].ok;
    }
  }
  const doc = { scenario, seed: settings.seed, kind: 'k6', rows: [row], tiers, thresholds, dropped: of('dropped_iterations', 'count'), checks: of('checks', 'rate') };
  return { [settings.out]: JSON.stringify(doc, null, 2) + '\n', stdout: print(doc) };
}

// share is a of a + b, or 0.
function share(a, b) {
  return a + b > 0 ? a / (a + b) : 0;
}

function print(doc) {
  const lines = ['', `${doc.scenario}, seed ${doc.seed}, written to ${settings.out}`, ''];
  const line = (name, value) => lines.push(`  ${name.padEnd(44)} ${String(Math.round(value * 1000) / 1000).padStart(12)}`);
  for (const name in doc.rows[0]) if (name !== 'name') line(name, doc.rows[0][name]);
  for (const tier of TIERS) {
    if (doc.tiers[tier].answers > 0) line(`answers, ${tier}`, doc.tiers[tier].answers);
  }
  line('checks that held', doc.checks);
  line('dropped: never sent for want of VUs', doc.dropped);
  for (const rule in doc.thresholds) lines.push(`  ${doc.thresholds[rule] ? 'ok    ' : 'BROKEN'} ${rule}`);
  return lines.join('\n') + '\n';
}
