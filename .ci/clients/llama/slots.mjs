// Slots: places for requests that generate at once, and the queue in front of them.

// Slots hands out places. Each remembers the tokens in its KV memory.
export class Slots {
    #waiting = []; // resolvers, first come first served
    constructor(count) {
        this.all = Array.from({length: count}, (_, id) => ({id, tokens: [], processing: false, task: -1, decoded: 0}));
        this.tasks = 0;
    }

    get deferred() { return this.#waiting.length; }
    get processing() { return this.all.filter(s => s.processing).length; }

    // take waits for a slot: of several that are free the one that knows most of the prompt. undefined: the client has
    // gone before.
    async take(prompt, signal) {
        while (!signal.aborted) {
            const free = this.all.filter(s => !s.processing);
            if (free.length > 0) {
                const slot = free.reduce((best, s) => common(s.tokens, prompt) > common(best.tokens, prompt) ? s : best);
                Object.assign(slot, {processing: true, task: this.tasks++, decoded: 0});
                return slot;
            }
            await new Promise(resolve => {
                this.#waiting.push(resolve);
                signal.addEventListener("abort", () => {
                    this.#waiting = this.#waiting.filter(r => r !== resolve);
                    resolve();
                }, {once: true});
            });
        }
        return undefined;
    }

    release(slot) {
        slot.processing = false;
        this.#waiting.shift()?.();
    }
}

// common is the number of tokens with which both begin.
export function common(a, b) {
    let n = 0;
    while (n < a.length && n < b.length && a[n] === b[n]) n++;
    return n;
}
