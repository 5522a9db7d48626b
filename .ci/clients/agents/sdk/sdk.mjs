// Sends the cases with the official SDKs for Node, each whole and as a stream: sdk.mjs URL CASES. One line of JSON for each answer.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [url, file] = process.argv.slice(2);
const require = createRequire(process.env.FOREGATE_AGENTS + '/package.json');
const load = async (name) => (await import(pathToFileURL(require.resolve(name)))).default;
const [OpenAI, Anthropic] = [await load('openai'), await load('@anthropic-ai/sdk')].map((m) => m.default ?? m);
const ours = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const theirs = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });

const send = {
  chat: (p, stream) => (stream ? ours.chat.completions.stream(p).finalChatCompletion() : ours.chat.completions.create(p)),
  responses: (p, stream) => (stream ? ours.responses.stream(p).finalResponse() : ours.responses.create(p)),
  messages: (p, stream) => (stream ? theirs.messages.stream(p).finalMessage() : theirs.messages.create(p)),
};

// told is what came: its end, text and calls.
const told = {
  chat: (a) => ({ end: a.choices[0].finish_reason, text: a.choices[0].message.content, calls: (a.choices[0].message.tool_calls ?? []).map((c) => c.function.name) }),
  responses: (a) => ({ end: a.status, text: a.output_text, calls: a.output.filter((i) => i.type === 'function_call').map((i) => i.name) }),
  messages: (a) => ({
    end: a.stop_reason, text: a.content.filter((b) => b.type === 'text').map((b) => b.text).join(''),
    calls: a.content.filter((b) => b.type === 'tool_use').map((b) => b.name),
  }),
};

// follow is the next turn, with the answer sent back as the SDK has it.
const more = { role: 'user', content: 'Thank you.' };
const follow = {
  chat: (p, a) => {
    const m = a.choices[0].message;
    const results = (m.tool_calls ?? []).map((c) => ({ role: 'tool', tool_call_id: c.id, content: 'Rain.' }));
    return { ...p, messages: [...p.messages, m, ...results, more], ...(p.tools && { tool_choice: 'auto' }) };
  },
  responses: (p, a) => {
    const results = a.output.filter((i) => i.type === 'function_call').map((i) => ({ type: 'function_call_output', call_id: i.call_id, output: 'Rain.' }));
    return { ...p, input: [{ role: 'user', content: p.input }, ...a.output, ...results, more], tool_choice: 'auto' };
  },
  messages: (p, a) => {
    const results = a.content.filter((b) => b.type === 'tool_use').map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: 'Rain.' }));
    const turn = { role: 'user', content: [...results, { type: 'text', text: 'Thank you.' }] };
    return { ...p, messages: [...p.messages, { role: 'assistant', content: a.content }, turn], ...(p.tools && { tool_choice: { type: 'auto' } }) };
  },
};

for (const { api, name, params, chain } of JSON.parse(readFileSync(file))) {
  for (const stream of [false, true]) {
    let out = { api, name, stream };
    try {
      const p = { model: 'risk', ...params };
      let a = await send[api](p, stream);
      if (chain) a = await send[api](follow[api](p, a), stream);
      out = { ...out, ...told[api](a) };
    } catch (e) {
      out.error = `${e.name}: ${e.message}`; // each is told
    }
    console.log(JSON.stringify(out));
  }
}
