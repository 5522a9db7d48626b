// The live picture: samples of the last ten minutes, as GET /console/live streams them.

import { events } from './api.js';

const kept = 600; // seconds of samples
const late = 10_000; // ms without a sample, after which what is shown is stale
const again = [1, 2, 5, 10, 20]; // seconds before another try, by how many failed

/** Samples, oldest first, and whether they still come. */
export class Live {
  constructor(address) {
    this.address = address;
    this.samples = [];
    this.state = 'connecting'; // connecting, live, stale
    this.heard = new Set();
    this.fails = 0;
    this.lastAt = 0; // performance.now() of the last sample
    this.since = performance.now();
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
    return (performance.now() - (this.lastAt || this.since)) / 1000;
  }

  start() {
    if (!document.hidden) this.connect();
    document.addEventListener('visibilitychange', () => (document.hidden ? this.rest() : this.wake()));
    setInterval(() => this.watch(), 1000);
  }

  /** Lets go while nobody looks: a browser has six connections to an address, for all of its tabs. */
  rest() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.source?.abort();
    this.source = null;
  }

  /** Comes back; what it missed is in the history. */
  wake() {
    this.lastAt = performance.now();
    this.restart();
  }

  /** Comes back at once, e.g. after signing in. */
  restart() {
    this.fails = 0;
    if (!document.hidden) this.connect();
  }

  async connect() {
    this.rest();
    const source = (this.source = new AbortController());
    try {
      await events(this.address, (name, data) => this.take(name === 'history' ? data : [data], name === 'history'), source.signal);
    } catch {
      /* refused, broken, or ended by us: what is shown becomes stale */
    }
    if (source === this.source) this.tryLater();
  }

  take(samples, all) {
    this.fails = 0;
    this.samples = all ? samples : this.samples.concat(samples.filter((s) => !this.last || s.t > this.last.t));
    const from = (this.last?.t ?? 0) - kept;
    while (this.samples.length && this.samples[0].t < from) this.samples.shift();
    if (samples.length) {
      this.lastAt = performance.now();
      this.state = 'live';
    }
    this.tell();
  }

  /** Looks once a second whether samples still come. */
  watch() {
    if (document.hidden) return;
    if (this.age * 1000 > late) {
      this.state = 'stale';
      if (this.age * 1000 > 3 * late && !this.timer) this.tryLater();
    }
    for (const hear of this.heard) if (hear.ticks) hear(this);
  }

  /** Makes another connection after a pause, also where an open one says nothing and may be dead. */
  tryLater() {
    this.timer = setTimeout(() => this.connect(), 1000 * again[Math.min(this.fails++, again.length - 1)]);
  }

  tell() {
    for (const hear of this.heard) hear(this);
  }
}
