// One answer: a prompt in, tokens out, until it ends, is long enough, meets a stop string or nobody waits for it.
import {common} from "./slots.mjs";

// generate yields {id, text, law} for each token, and at last {finish, usage}. text is what may be told so far: it never
// ends within a character, nor in what may become a stop string. It stops between two tokens once signal is aborted.
export async function* generate(engine, slot, task, signal) {
    const sampler = task.temperature > 0 ? engine.sampler(task.sampling) : undefined;
    const text = new Text(task.stop);
    let position = Math.min(common(slot.tokens, task.prompt), task.prompt.length - 1);
    const cached = position;
    let pending = task.prompt.slice(position);
    slot.tokens = slot.tokens.slice(0, position);
    let finish = "length";
    try {
        while (task.limit < 0 || slot.decoded < task.limit) {
            if (signal.aborted || position + pending.length > task.window) break;
            const {id, law} = await engine.evaluate(slot.id, position, pending, {sampler, probabilities: task.alternatives > 0});
            slot.tokens.push(...pending);
            position += pending.length;
            pending = [id];
            slot.decoded++;
            const ended = engine.ends(id) && !task.endless, told = text.add(engine.bytes(id), ended);
            if (text.stopped) { // the stop string and its tokens are not told
                finish = "stop";
                if (told !== "") yield {id, text: told, law};
                break;
            }
            yield {id, text: told, law, ended};
            if (ended) {
                finish = "stop";
                break;
            }
            if (task.pause > 0) await new Promise(resolve => setTimeout(resolve, task.pause));
        }
    } finally {
        sampler?.dispose();
    }
    if (signal.aborted) return;
    yield {finish, rest: text.stopped ? "" : text.rest(), usage: {
        completion_tokens: slot.decoded, prompt_tokens: task.prompt.length, total_tokens: task.prompt.length + slot.decoded,
        prompt_tokens_details: {cached_tokens: cached},
    }};
}

// Text is the text of an answer as it becomes known.
class Text {
    #bytes = Buffer.alloc(0); // of what is not told yet
    constructor(stops) {
        this.stops = stops;
        this.stopped = false;
    }

    // add returns what may be told after a token with these bytes. At the end everything may.
    add(bytes, atEnd) {
        this.#bytes = Buffer.concat([this.#bytes, bytes]);
        const text = this.#bytes.toString("utf8"), whole = text.replace(/\ufffd+$/, "");
        const found = this.stops.map(s => whole.indexOf(s)).filter(i => i >= 0);
        if (found.length > 0) {
            this.stopped = true;
            return whole.slice(0, Math.min(...found));
        }
        const told = atEnd ? text : whole.slice(0, whole.length - this.#held(whole));
        this.#bytes = this.#bytes.subarray(Buffer.byteLength(told));
        return told;
    }

    rest() { return this.#bytes.toString("utf8"); }

    // held is the length of the end of a text with which a stop string may begin.
    #held(text) {
        for (let n = Math.min(text.length, Math.max(0, ...this.stops.map(s => s.length - 1))); n > 0; n--) {
            if (this.stops.some(s => s.startsWith(text.slice(-n)))) return n;
        }
        return 0;
    }
}
