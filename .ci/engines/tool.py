"""tool.py TOOL URL MODEL HOME: runs an unmodified tool with a base URL and a key, and prints what it tells as one line of JSON.

HOME is what .ci/need-engines prints. Nothing but URL is asked.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

tool, url, model, home = sys.argv[1:5]
KEY = "a-key-that-nobody-checks"
TOKENIZER = os.path.join(home, "models", "smol-target")
QUESTION = "What is the capital of France? Answer with its name."
ASK = [{"role": "user", "content": QUESTION}]
LIMIT = 8  # tokens of an answer
REQUESTS = 3  # of a benchmark


def openai():
    from openai import OpenAI

    client = OpenAI(base_url=url + "/v1", api_key=KEY, timeout=600)
    asked = {"model": model, "max_tokens": LIMIT, "temperature": 0}
    whole = client.chat.completions.create(messages=ASK, **asked)
    events = list(client.chat.completions.create(messages=ASK, stream=True, stream_options={"include_usage": True}, **asked))
    text = client.completions.create(prompt="The capital of France is", **asked)
    return {
        "models": bool(client.models.list().data),
        "chat": whole.choices[0].message.content,
        "streamed": "".join(e.choices[0].delta.content or "" for e in events if e.choices),
        "completion": text.choices[0].text,
        "tokens": [(u.prompt_tokens, u.completion_tokens) for u in (whole.usage, events[-1].usage, text.usage)],
    }


def anthropic():
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key=KEY, timeout=600)
    asked = {"model": model, "max_tokens": LIMIT, "messages": ASK, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    return {
        "message": whole.content[0].text,
        "streamed": streamed.content[0].text,
        "stop": [whole.stop_reason, streamed.stop_reason],
        "output": [whole.usage.output_tokens, streamed.usage.output_tokens],
        "count_tokens": client.messages.count_tokens(model=model, messages=ASK).input_tokens,
    }


def langchain():
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=url + "/v1", api_key=KEY, model=model, temperature=0, max_tokens=LIMIT, timeout=600, stream_usage=True)
    whole = chat.invoke(QUESTION)
    parts = list(chat.stream(QUESTION))
    return {
        "chat": whole.content,
        "streamed": "".join(p.content for p in parts),
        "tokens": [whole.usage_metadata["output_tokens"], sum(p.usage_metadata["output_tokens"] for p in parts if p.usage_metadata)],
    }


def litellm():
    from litellm import completion

    asked = {"model": "openai/" + model, "api_base": url + "/v1", "api_key": KEY, "messages": ASK, "max_tokens": LIMIT, "temperature": 0, "timeout": 600}
    whole = completion(**asked)
    parts = list(completion(stream=True, **asked))
    return {
        "chat": whole.choices[0].message.content,
        "streamed": "".join(p.choices[0].delta.content or "" for p in parts if p.choices),
        "tokens": whole.usage.completion_tokens,
    }


def run(environment, *command):
    """Runs a program of an environment. Its output is shown if it fails."""
    done = subprocess.run([os.path.join(home, environment, "bin", command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} ends with {done.returncode}:\n{done.stdout[-3000:]}")


def read(folder, pattern):
    """The one file of a folder that fits."""
    (path,) = glob.glob(os.path.join(folder, "**", pattern), recursive=True)
    with open(path) as f:
        return json.load(f)


def served(completed, failed, tokens):
    """What a benchmark counted, if that is all it was told to ask."""
    if (completed, failed, tokens) != (REQUESTS, 0, REQUESTS * LIMIT):
        raise SystemExit(f"{completed} answers of {tokens} tokens, {failed} failed, not {REQUESTS} of {REQUESTS * LIMIT} and none")
    return {"completed": completed, "failed": failed, "tokens": tokens}


def vllm_bench(folder):
    run("vllm", "vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions",
        "--model", model, "--tokenizer", TOKENIZER, "--dataset-name", "random", "--random-input-len", "16", "--random-output-len", str(LIMIT),
        "--num-prompts", str(REQUESTS), "--ignore-eos", "--temperature", "0", "--save-result", "--result-dir", folder, "--result-filename", "r.json")
    r = read(folder, "r.json")
    return served(r["completed"], r["failed"], r["total_output_tokens"])


def guidellm(folder):
    server = {"kind": "openai_http", "target": url, "model": model}
    run("tools", "guidellm", "run", "--backend", json.dumps(server), "--profile", "kind=synchronous",
        "--constraint", f"kind=max_requests,count={REQUESTS}", "--tokenizer", f"kind=hf_auto,model={TOKENIZER}",
        "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={LIMIT}", "--output", f"kind=json,path={folder}/r.json", "--disable-console")
    metrics = read(folder, "r.json")["benchmarks"][0]["metrics"]
    asked = metrics["request_totals"]
    return served(asked["successful"], asked["errored"] + asked["incomplete"], metrics["output_token_count"]["successful"]["total_sum"])


def aiperf(folder):
    run("tools", "aiperf", "profile", "-m", model, "--url", url, "--endpoint-type", "chat", "--streaming", "--request-count", str(REQUESTS),
        "--concurrency", "1", "--tokenizer", "local/smol-target", "--isl", "16", "--osl", str(LIMIT), "--extra-inputs", "ignore_eos:true",
        "--extra-inputs", "temperature:0", "--use-server-token-count", "--random-seed", "1", "--artifact-dir", folder, "--ui", "none")
    r = read(folder, "profile_export_aiperf.json")
    return served(r["request_count"]["avg"], r.get("error_request_count", {"avg": 0})["avg"], r["output_sequence_length"]["avg"] * REQUESTS)


FACTS = [
    {"question": "The capital of France is", "choices": ["Paris", "London"], "right": 0},
    {"question": "Two and two are", "choices": ["seven", "four"], "right": 1},
    {"question": "The sun rises in the", "choices": ["east", "west"], "right": 0},
]


def lm_eval(folder, task, *arguments):
    """Scores and answers of a task over FACTS."""
    with open(os.path.join(folder, "facts.jsonl"), "w") as f:
        f.writelines(json.dumps(fact) + "\n" for fact in FACTS)
    with open(os.path.join(folder, "facts.yaml"), "w") as f:
        files = {"test": os.path.join(folder, "facts.jsonl")}
        json.dump({"task": "facts", "dataset_path": "json", "dataset_kwargs": {"data_files": files}, "test_split": "test", "doc_to_text": "{{question}}", **task}, f)
    run("tools", "lm_eval", *arguments, "--tasks", "facts", "--include_path", folder, "--output_path", folder, "--log_samples")
    scores = read(folder, "results_*.json")["results"]["facts"]
    (path,) = glob.glob(os.path.join(folder, "**", "samples_*.jsonl"), recursive=True)
    with open(path) as f:
        answers = [json.loads(line)["resps"] for line in f]
    return {name: v for name, v in scores.items() if isinstance(v, float) and "stderr" not in name}, answers


def lm_eval_chat(folder):
    scores, answers = lm_eval(
        folder,
        {"output_type": "generate_until", "doc_to_target": "{{choices[right]}}", "metric_list": [{"metric": "exact_match"}],
         "generation_kwargs": {"until": ["\n"], "max_gen_toks": LIMIT, "temperature": 0}},
        "--model", "local-chat-completions", "--apply_chat_template",
        "--model_args", f"model={model},base_url={url}/v1/chat/completions,num_concurrent=1,timeout=600")
    return {"scores": scores, "answers": answers}


def lm_eval_loglikelihood(folder):
    scores, answers = lm_eval(
        folder,
        {"output_type": "multiple_choice", "doc_to_choice": "{{choices}}", "doc_to_target": "{{right}}", "metric_list": [{"metric": "acc"}]},
        "--model", "local-completions",
        "--model_args", f"model={model},base_url={url}/v1/completions,num_concurrent=1,timeout=600,tokenizer={TOKENIZER},tokenizer_backend=huggingface")
    return {"scores": scores, "log-likelihoods": [[round(float(choice[0][0]), 1) for choice in answer] for answer in answers]}


os.environ |= {
    "HF_HOME": os.path.join(home, "hf"), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": KEY, "no_proxy": "127.0.0.1",
}
if tool in ("openai", "anthropic", "langchain", "litellm"):
    sys.path.pop(0)  # this file's folder
    told = globals()[tool]()
else:
    with tempfile.TemporaryDirectory(prefix="foregate-tool-") as folder:
        os.environ["HF_DATASETS_CACHE"] = folder
        told = globals()[tool](folder)
print(json.dumps(told))
