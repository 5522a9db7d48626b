// The live picture: samples of the last ten minutes, for which GET /console/live is asked.

import { get, poll } from './api.js';

const kept = 600; // seconds of samples
const pause = 2_000; // ms between two questions
const late = 10_000; // ms without a sample, after which what is shown is stale

/** Samples, oldest first, and whether they still come. */
export class Live {
  constructor() {
    this.samples = [];
    this.state = 'connecting'; // connecting, live, stale
    this.heard = new Set();
    this.lastAt = performance.now(); // of the last sample, or since when one is waited for
  }

  /** Calls hear(live) after each sample and change of state, until the returned function is called. */
  subscribe(hear) {
    this.heard.add(hear);
    hear(this);
    return () => this.heard.delete(hear);
  }

  /** The last sample, or undefined. */
  get last() {
    return this.samples[this.samples.length - 1];
  }

  /** Seconds since the last sample, or since we began to wait for one. */
  get age() {
    return (performance.now() - this.lastAt) / 1000;
  }

  start() {
    this.asking = poll(
      pause,
      async (signal) => this.take(await get(`../console/live?after=${this.last?.t ?? 0}`, signal)),
      () => {}, // what is shown becomes stale
    );
    document.addEventListener('visibilitychange', () => {
      this.lastAt = performance.now();
    });
    setInterval(() => this.watch(), 1000);
  }

  /** Asks at once, e.g. after signing in. */
  restart() {
    this.asking.now();
  }

  take(samples) {
    if (!samples.length) return;
    this.samples = this.samples.concat(samples);
    const from = this.last.t - kept;
    while (this.samples[0].t < from) this.samples.shift();
    this.lastAt = performance.now();
    this.state = 'live';
    for (const hear of this.heard) hear(this);
  }

  /** Looks once a second whether samples still come. */
  watch() {
    if (document.hidden) return;
    if (this.age * 1000 > late) this.state = 'stale';
    for (const hear of this.heard) if (hear.ticks) hear(this);
  }
}
