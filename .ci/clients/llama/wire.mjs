// What llama-server's JSON looks like: written down from llama.cpp's tools/server (server-task.cpp, server-common.cpp,
// README.md) as of mid 2026.

// Refusal is an error that a client is told.
export class Refusal extends Error {
    constructor(status, type, message, more = {}) {
        super(message);
        this.status = status;
        this.body = {error: {code: status, message, type, ...more}};
    }
}

export const invalid = message => new Refusal(400, "invalid_request_error", message);

export function tooLong(tokens, window) {
    return new Refusal(400, "exceed_context_size_error",
        `request (${tokens} tokens) exceeds the available context size (${window} tokens), try increasing it`,
        {n_prompt_tokens: tokens, n_ctx: window});
}

// task reads the members of a request that say how to generate. Members that it does not know are ignored, as
// llama-server does.
export function task(body, prompt, {window, pause, alternatives}) {
    if (body.n !== undefined && body.n !== 1) throw invalid("n > 1 is not supported by this test server");
    const limit = body.max_tokens ?? body.n_predict ?? -1;
    const temperature = body.temperature ?? 0.8;
    const stop = body.stop == null ? [] : [body.stop].flat().filter(s => typeof s === "string" && s !== "");
    const sampling = {
        temperature, topK: body.top_k ?? 40, topP: body.top_p ?? 0.95, minP: body.min_p ?? 0.05,
        seed: body.seed >= 0 ? body.seed : Math.floor(Math.random() * 2 ** 32),
    };
    return {prompt, limit, temperature, sampling, stop, window, pause, alternatives, endless: body.ignore_eos === true};
}

// chatAlternatives is n_probs of a chat: without top_logprobs 20, and with 0 there are no logprobs at all.
export function chatAlternatives(body) {
    if (body.logprobs === true) return Math.min(body.top_logprobs ?? 20, 1000);
    if (body.top_logprobs > 0) throw invalid("top_logprobs requires logprobs to be set to true");
    return 0;
}

// logprobs is the entry of one token: of the engine's own law, at temperature 1 whatever the request's is.
export function logprobs(engine, id, law, alternatives) {
    const entry = (token, probability) => ({
        id: token, token: engine.bytes(token).toString("utf8"), bytes: [...engine.bytes(token)],
        logprob: probability > 0 ? Math.log(probability) : -3.4028234663852886e38,
    });
    let own = 0;
    const top = [];
    for (let i = 0; i < law.length; i += 2) {
        if (law[i] === id) own = law[i + 1];
        if (top.length < alternatives) top.push(entry(law[i], law[i + 1]));
    }
    return {...entry(id, own), top_logprobs: top};
}

// Answer makes the JSON of one answer, whole or in chunks.
export class Answer {
    constructor(chat, {id, model, alternatives, engine}) {
        Object.assign(this, {chat, engine, alternatives});
        this.head = {created: Math.floor(Date.now() / 1000), model, system_fingerprint: "foregate-llamatest", id};
        this.first = true;
        this.text = "";
        this.entries = [];
    }

    #content(entries) { return entries.length > 0 ? {content: entries} : null; }

    #chunk(choice) {
        return {choices: [choice], object: this.chat ? "chat.completion.chunk" : "text_completion", ...this.head};
    }

    // token takes a token into the answer, and returns its chunks.
    token({id, text, law}) {
        const entries = this.alternatives > 0 ? [logprobs(this.engine, id, law, this.alternatives)] : [];
        this.text += text;
        this.entries.push(...entries);
        if (!this.chat) return [this.#chunk({text, index: 0, logprobs: this.#content(entries), finish_reason: null})];
        const chunks = [];
        if (this.first) chunks.push(this.#chunk({finish_reason: null, index: 0, delta: {role: "assistant", content: null}}));
        this.first = false;
        if (text !== "") { // a chunk of a chat has a text: the end's logprobs are told in whole answers alone
            const choice = {finish_reason: null, index: 0, delta: {content: text}};
            if (entries.length > 0) choice.logprobs = this.#content(entries);
            chunks.push(this.#chunk(choice));
        }
        return chunks;
    }

    // last returns the chunks of the end.
    last({finish, rest, usage}, wantUsage) {
        if (!this.chat) return [{...this.#chunk({text: rest, index: 0, logprobs: null, finish_reason: finish}), usage}];
        const chunks = [];
        if (rest !== "") chunks.push(this.#chunk({finish_reason: null, index: 0, delta: {content: rest}}));
        chunks.push(this.#chunk({finish_reason: finish, index: 0, delta: {}}));
        if (wantUsage) chunks.push({choices: [], object: "chat.completion.chunk", ...this.head, usage});
        return chunks;
    }

    // whole returns the answer of a request without stream.
    whole({finish, rest, usage}) {
        const text = this.text + rest, found = this.#content(this.entries);
        const choice = this.chat
            ? {finish_reason: finish, index: 0, message: {role: "assistant", content: text}, ...(found && {logprobs: found})}
            : {text, index: 0, logprobs: found, finish_reason: finish};
        return {choices: [choice], object: this.chat ? "chat.completion" : "text_completion", ...this.head, usage};
    }
}
