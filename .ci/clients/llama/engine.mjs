// The engine itself: model, tokenizer, chat template, KV memory, logits and sampler are llama.cpp's, by the addon of
// node-llama-cpp. Ours is the order of the work: one slot's batch at a time, never two slots in one batch.
import {createRequire} from "node:module";
import path from "node:path";

const batchSize = 256; // tokens of a prompt that are computed at once
const noTemperature = 0;

// loadAddon loads llama.cpp from an npm installation (.ci/need-llama).
export async function loadAddon(modules) {
    const bins = path.join(modules, "@node-llama-cpp", "linux-x64", "bins", "linux-x64");
    const addon = createRequire(import.meta.url)(path.join(bins, "llama-addon.node"));
    addon.setLogger((level, message) => process.stderr.write(message));
    addon.setLoggerLogLevel(2); // errors
    await addon.init();
    addon.loadBackends(bins);
    return addon;
}

// Engine is a model with a context of its own for each slot.
export class Engine {
    #addon;
    #model;
    #context;
    #greedy; // leaves the logits as they are
    #template;
    #busy = Promise.resolve(); // the context takes one call at a time

    // open loads a model file. window is the context of a slot in tokens, a multiple of 256.
    static async open(addon, file, template, {slots, window}) {
        const e = new Engine();
        e.#addon = addon;
        e.#model = new addon.AddonModel(file, {gpuLayers: 0, useMmap: false, addonExports: addon});
        if (!await e.#model.init()) throw new Error(`${file} is no model that llama.cpp loads`);
        e.#context = new addon.AddonContext(e.#model, {contextSize: slots * window, batchSize, sequences: slots, threads: 1});
        if (!await e.#context.init()) throw new Error(`no context of ${slots} × ${window} tokens`);
        e.#greedy = e.sampler({temperature: noTemperature});
        e.#template = new addon.AddonJinjaRenderer(template);
        e.begin = e.#model.tokenBos();
        e.finish = e.#model.tokenEos();
        e.about = {
            vocab_type: e.#model.getVocabularyType(), n_ctx_train: e.#model.getTrainContextSize(),
            n_embd: e.#model.getEmbeddingVectorSize(), n_params: e.#model.getTotalParameters(), size: e.#model.getModelSize(),
        };
        return e;
    }

    // tokenize returns ids. special: the beginning is put in front where the model wants it.
    tokenize(text, {special = false, parse = true} = {}) {
        const ids = [...this.#model.tokenize(text, parse)];
        return special && this.#model.shouldPrependBosToken() ? [this.begin, ...ids] : ids;
    }

    // render writes a chat with the model's own template.
    render(variables) {
        return this.#template.render({bos_token: this.#model.getTokenString(this.begin), eos_token: this.#model.getTokenString(this.finish), ...variables});
    }

    // bytes returns a token's bytes; none for a control token.
    bytes(id) {
        return id === this.begin || this.ends(id) ? Buffer.alloc(0) : textBytes(this.#model.getTokenString(id));
    }

    // piece is a token's text among others, control tokens too.
    piece(id) { return this.bytes(id).length > 0 ? this.bytes(id) : Buffer.from(this.name(id)); }

    ends(id) { return this.#model.isEogToken(id); }

    known(id) { return Number.isInteger(id) && id >= 0 && this.#model.getTokenString(id) !== ""; }

    name(id) { return this.#model.getTokenString(id); }

    // sampler returns a chain of llama.cpp's samplers.
    sampler(config) {
        const s = new this.#addon.AddonSampler(this.#model);
        s.applyConfig(config);
        return s;
    }

    // evaluate computes tokens of a slot from a position on, a batch at a time, and forgets what was there and after it.
    // It returns what follows the last one: next with the id that sampler picks, and with probabilities the whole law of
    // llama.cpp's logits, without temperature, as id, probability, id, probability … from the most probable on.
    async evaluate(slot, position, ids, {sampler, probabilities}) {
        let next;
        for (let at = 0; at < ids.length; at += batchSize) {
            const part = ids.slice(at, at + batchSize), last = at + batchSize >= ids.length;
            next = await this.#alone(async () => {
                const c = this.#context;
                c.removeTokenCellsFromSequence(slot, position + at, -1);
                c.initBatch(part.length);
                const [place] = c.addToBatch(slot, position + at, Uint32Array.from(part), Uint32Array.from(last ? [part.length - 1] : []));
                await c.decodeBatch();
                if (!last) return undefined;
                const [first, law] = await c.sampleToken(place, this.#greedy, probabilities, false);
                return {law, id: sampler === undefined ? first : await c.sampleToken(place, sampler)};
            });
        }
        return next;
    }

    #alone(work) {
        const done = this.#busy.then(work);
        this.#busy = done.catch(() => {});
        return done;
    }
}

// textBytes undoes how GPT-2's vocabulary writes bytes: those that cannot be seen are letters from U+0100 on.
const hidden = [...Array(256).keys()].filter(b => !(b >= 0x21 && b <= 0x7e || b >= 0xa1 && b <= 0xac || b >= 0xae));
function textBytes(text) {
    return Buffer.from([...text].map(c => {
        const code = c.codePointAt(0);
        return code < 0x100 ? code : hidden[code - 0x100];
    }));
}
