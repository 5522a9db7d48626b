"""Sends the cases with the official SDKs for Python, each whole and as a stream: sdk.py URL CASES. One line of JSON for each answer."""

import inspect
import json
import sys

import anthropic
import openai

url, file = sys.argv[1:]
ours = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
theirs = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def chat(params, stream):
    if not stream:
        return ours.chat.completions.create(**params)
    with ours.chat.completions.stream(**params) as s:
        s.until_done()
        return s.get_final_completion()


def responses(params, stream):
    if not stream:
        return ours.responses.create(**params)
    with ours.responses.stream(**params) as s:
        s.until_done()
        return s.get_final_response()


def messages(params, stream):
    known = inspect.signature(theirs.messages.create).parameters
    more = {k: v for k, v in params.items() if k not in known}  # it has no names any more for temperature and top_k
    params = {**{k: v for k, v in params.items() if k in known}, "extra_body": more}
    if not stream:
        return theirs.messages.create(**params)
    with theirs.messages.stream(**params) as s:
        return s.get_final_message()


def told(api, a):
    """What came: its end, text and calls."""
    if api == "chat":
        m = a.choices[0].message
        return a.choices[0].finish_reason, m.content, [c.function.name for c in m.tool_calls or []]
    if api == "responses":
        return a.status, a.output_text, [i.name for i in a.output if i.type == "function_call"]
    return a.stop_reason, "".join(b.text for b in a.content if b.type == "text"), [b.name for b in a.content if b.type == "tool_use"]


def follow(api, params, a):
    """The next turn, with the answer sent back as the SDK has it."""
    more = {"role": "user", "content": "Thank you."}
    if api == "chat":
        m = a.choices[0].message
        results = [{"role": "tool", "tool_call_id": c.id, "content": "Rain."} for c in m.tool_calls or []]
        return {**params, "messages": [*params["messages"], m, *results, more], "tool_choice": "auto" if "tools" in params else openai.NOT_GIVEN}
    if api == "responses":
        results = [{"type": "function_call_output", "call_id": i.call_id, "output": "Rain."} for i in a.output if i.type == "function_call"]
        first = {"role": "user", "content": params["input"]}
        return {**params, "input": [first, *a.output, *results, more], "tool_choice": "auto"}
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": "Rain."} for b in a.content if b.type == "tool_use"]
    turn = {"role": "user", "content": [*results, {"type": "text", "text": "Thank you."}]}
    choice = {"type": "auto"} if "tools" in params else anthropic.NOT_GIVEN
    return {**params, "messages": [*params["messages"], {"role": "assistant", "content": a.content}, turn], "tool_choice": choice}


for case in json.load(open(file)):
    api, params = case["api"], {"model": "risk", **case["params"]}
    for stream in False, True:
        out = {"api": api, "name": case["name"], "stream": stream}
        try:
            send = {"chat": chat, "responses": responses, "messages": messages}[api]
            a = send(params, stream)
            out["end"], out["text"], out["calls"] = told(api, a)
            if case.get("chain"):
                out["end"], out["text"], out["calls"] = told(api, send(follow(api, params, a), stream))
        except Exception as e:  # each is told
            out["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(out), flush=True)
