// Conversations of several turns over shared documents: what routing by prefix
// and the caches are for. Conversations begin at a constant rate; in one, each
// turn waits for the answer and a pause, as people do.
//
//   k6 run -e BASE_URL=http://127.0.0.1:8080 -e RATE=2 -e CONTEXTS=30 conversations.js
//
// README.md has every setting and what the numbers mean.

import { sleep } from 'k6';
import crypto from 'k6/crypto';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { arrivals, ask, caller, random, settings, summary, words } from './lib.js';

const TURNS = Number(__ENV.TURNS || 4);
const THINK = Number(__ENV.THINK || 3); // seconds on average
const CONTEXTS = Math.max(Number(__ENV.CONTEXTS || 20), 1);
const CONTEXT_WORDS = Number(__ENV.CONTEXT_WORDS || 1000);
const WORDS = Number(__ENV.WORDS || 30); // of a question
const SYSTEM = __ENV.SYSTEM || 'You answer from the documents alone.';

export const options = arrivals('conversations', TURNS * (THINK + 10));

const whole = new Counter('foregate_conversations'); // had all their turns
const turns = new Trend('foregate_turns');

// context is the documents number n, the same in every VU and run.
function context(n) {
  const text = words(CONTEXT_WORDS, random(1e6 + n));
  return { text, digest: crypto.sha256(text, 'hex') };
}

export default function () {
  const rng = random(exec.scenario.iterationInTest);
  const headers = caller(rng);
  const documents = context(Math.floor(rng() * rng() * CONTEXTS)); // the first ones are asked for most
  headers['X-RAG-Hash'] = documents.digest;
  const messages = [{ role: 'system', content: `${SYSTEM}\n\n${documents.text}` }];
  let turn = 0;
  for (; turn < TURNS; turn++) {
    if (turn > 0) sleep(THINK * (0.5 + rng()));
    messages.push({ role: 'user', content: words(WORDS, rng) });
    const said = ask(messages, headers, turn === 0 ? 'first turn' : 'later turn');
    if (!said.ok) break; // whoever was refused goes away
    messages.push({ role: 'assistant', content: said.text });
  }
  turns.add(turn);
  if (turn === TURNS) whole.add(1);
}

export function handleSummary(data) {
  return summary(data, `conversations at ${settings.rate}/s, ${TURNS} turns, ${CONTEXTS} contexts`);
}
