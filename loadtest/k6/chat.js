// Single questions at a constant rate, whatever the answers' speed.
//
//   k6 run -e BASE_URL=http://127.0.0.1:8080 -e RATE=20 chat.js
//
// README.md has every setting and what the numbers mean.

import exec from 'k6/execution';
import { arrivals, ask, caller, random, settings, summary, words } from './lib.js';

export const options = arrivals('chat', 20);

const WORDS = Number(__ENV.WORDS || 60); // of a question

export default function () {
  const rng = random(exec.scenario.iterationInTest);
  const headers = caller(rng);
  ask([
    { role: 'system', content: __ENV.SYSTEM || 'You answer briefly.' },
    { role: 'user', content: words(WORDS, rng) },
  ], headers, 'chat');
}

export function handleSummary(data) {
  return summary(data, `chat at ${settings.rate}/s`);
}
