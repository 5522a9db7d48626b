// A small server that speaks llama-server's wire on top of llama.cpp, for tests: see README.md.
//
//	node server.mjs --modules DIR --model FILE [--alias NAME] [--port N] [--slots N] [--context N] [--metrics] [--pause MS]
//
// It prints "listening on URL" once the model is loaded, and ends when its standard input does.
import {createServer} from "node:http";
import {readFileSync} from "node:fs";
import {parseArgs} from "node:util";
import {Engine, loadAddon} from "./engine.mjs";
import {generate} from "./generate.mjs";
import {Slots} from "./slots.mjs";
import {Answer, Refusal, chatAlternatives, invalid, task, tooLong} from "./wire.mjs";

const {values: flags} = parseArgs({options: {
    modules: {type: "string"}, model: {type: "string"}, template: {type: "string"}, alias: {type: "string", default: "tiny"},
    port: {type: "string", default: "0"}, slots: {type: "string", default: "2"}, context: {type: "string", default: "1024"},
    metrics: {type: "boolean", default: false}, pause: {type: "string", default: "0"},
}});
const maxBody = 4 << 20; // bytes of a request
const window = Number(flags.context), pause = Number(flags.pause);
const template = readFileSync(flags.template, "utf8");
const engine = await Engine.open(await loadAddon(flags.modules), flags.model, template, {slots: Number(flags.slots), window});
const slots = new Slots(Number(flags.slots));
const totals = {prompt: 0, generated: 0, decodes: 0};
let answers = 0;

function props() {
    return {
        default_generation_settings: {n_ctx: window, params: {temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}},
        total_slots: slots.all.length, model_alias: flags.alias, model_path: flags.model, chat_template: template,
        bos_token: engine.name(engine.begin), eos_token: engine.name(engine.finish), build_info: "foregate-llamatest", is_sleeping: false,
    };
}

function models() {
    return {object: "list", data: [{
        id: flags.alias, aliases: [], tags: [], object: "model", created: Math.floor(Date.now() / 1000), owned_by: "llamacpp", meta: engine.about,
    }]};
}

function metrics() {
    if (!flags.metrics) throw new Refusal(501, "not_supported_error", "This server does not support metrics endpoint. Start it with `--metrics`");
    const lines = (kind, all) => Object.entries(all).map(([n, v]) => `# HELP llamacpp:${n} ${n}\n# TYPE llamacpp:${n} ${kind}\nllamacpp:${n} ${v}\n`).join("");
    return lines("counter", {prompt_tokens_total: totals.prompt, tokens_predicted_total: totals.generated, n_decode_total: totals.decodes}) +
        lines("gauge", {requests_processing: slots.processing, requests_deferred: slots.deferred});
}

function slotViews() {
    return slots.all.map(s => ({
        id: s.id, id_task: s.task, n_ctx: window, speculative: false, is_processing: s.processing, next_token: [{n_decoded: s.decoded}],
    }));
}

// chatPrompt writes a chat. An answer at its end is gone on with, as llama-server does without being asked to.
function chatPrompt(body) {
    if (!Array.isArray(body.messages)) throw invalid("'messages' is required");
    const messages = body.messages.map(m => ({...m, content: textOf(m.content)}));
    const begun = messages.at(-1)?.role === "assistant" ? messages.pop().content : undefined;
    if (messages.at(-1)?.role === "assistant" && begun !== undefined) throw invalid("Cannot have 2 or more assistant messages at the end of the list.");
    const add_generation_prompt = begun !== undefined || (body.add_generation_prompt ?? true);
    try {
        return engine.render({messages, add_generation_prompt, ...body.chat_template_kwargs}) + (begun ?? "");
    } catch (e) {
        throw invalid(e.message);
    }
}

function textOf(content) {
    if (Array.isArray(content)) return content.map(part => part.text ?? "").join("");
    return content ?? "";
}

// ids reads the prompt of /v1/completions: a text, or ids, to which nothing is added.
function ids(prompt) {
    if (typeof prompt === "string") return engine.tokenize(prompt, {special: true});
    if (!Array.isArray(prompt) || prompt.length === 0) throw invalid("\"prompt\" must be a string, or a list of tokens");
    if (!prompt.every(id => engine.known(id))) throw invalid("Invalid token in the prompt");
    return prompt;
}

async function answer(chat, body, reply) {
    const prompt = chat ? engine.tokenize(chatPrompt(body), {special: true}) : ids(body.prompt);
    const alternatives = chat ? chatAlternatives(body) : Math.max(0, Number(body.logprobs ?? 0));
    if (prompt.length >= window) throw tooLong(prompt.length, window);
    const work = task(body, prompt, {window, pause, alternatives});
    const slot = await slots.take(prompt, reply.gone);
    if (slot === undefined) return;
    try {
        const id = `${chat ? "chatcmpl" : "cmpl"}-${answers++}`;
        await tell(new Answer(chat, {id, model: flags.alias, alternatives, engine}), generate(engine, slot, work, reply.gone), {body, reply});
        totals.prompt += prompt.length;
        totals.generated += slot.decoded;
        totals.decodes += slot.decoded;
    } finally {
        slots.release(slot);
    }
}

async function tell(answer, tokens, {body, reply}) {
    for await (const t of tokens) {
        if (t.finish === undefined) {
            const chunks = answer.token(t);
            if (body.stream) reply.events(chunks);
        } else if (body.stream) {
            reply.events(answer.last(t, body.stream_options?.include_usage));
            reply.done();
        } else {
            reply.json(200, answer.whole(t));
        }
    }
}

const routes = {
    "GET /health": () => ({status: "ok"}),
    "GET /v1/health": () => ({status: "ok"}),
    "GET /v1/models": models,
    "GET /models": models,
    "GET /props": props,
    "GET /slots": slotViews,
    "GET /metrics": metrics,
    "POST /tokenize": body => ({tokens: engine.tokenize(textOf(body.content), {special: body.add_special === true, parse: body.parse_special !== false})}),
    "POST /detokenize": body => ({content: Buffer.concat((body.tokens ?? []).map(id => engine.piece(id))).toString("utf8")}),
    "POST /apply-template": body => ({prompt: chatPrompt(body)}),
    "POST /v1/chat/completions": (body, reply) => answer(true, body, reply),
    "POST /v1/completions": (body, reply) => answer(false, body, reply),
};

// Reply is the answer to one request. gone is aborted when the client has left.
class Reply {
    #gone = new AbortController();
    constructor(res) {
        this.res = res;
        this.gone = this.#gone.signal;
        res.on("close", () => this.#gone.abort());
    }

    json(status, value) {
        if (this.res.headersSent) return void this.res.destroy();
        const text = typeof value === "string" ? value : JSON.stringify(value);
        this.res.writeHead(status, {"Content-Type": typeof value === "string" ? "text/plain; version=0.0.4" : "application/json; charset=utf-8", Server: "llama.cpp"});
        this.res.end(text);
    }

    events(chunks) {
        if (!this.res.headersSent) this.res.writeHead(200, {"Content-Type": "text/event-stream", Server: "llama.cpp"});
        for (const c of chunks) this.res.write(`data: ${JSON.stringify(c)}\n\n`);
    }

    done() { this.res.end("data: [DONE]\n\n"); }
}

async function readBody(req) {
    let text = "";
    for await (const part of req.setEncoding("utf8")) {
        text += part;
        if (text.length > maxBody) throw invalid("the request is too long");
    }
    try {
        return text === "" ? {} : JSON.parse(text);
    } catch (e) {
        throw invalid(e.message);
    }
}

async function handle(req, res) {
    const reply = new Reply(res);
    try {
        const route = routes[`${req.method} ${new URL(req.url, "http://x").pathname}`];
        if (route === undefined) throw new Refusal(404, "not_found_error", "File Not Found");
        const value = await route(await readBody(req), reply);
        if (value !== undefined) reply.json(200, value);
    } catch (e) {
        if (!(e instanceof Refusal)) process.stderr.write(`${e.stack}\n`);
        reply.json(e.status ?? 500, e.body ?? {error: {code: 500, message: String(e.message), type: "server_error"}});
    }
}

const server = createServer(handle);
server.listen(Number(flags.port), "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit(0)).resume(); // whoever started it has ended
