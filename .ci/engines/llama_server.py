"""llama.cpp's own HTTP server on loopback, from the package xllamacpp: llama_server.py MODEL PORT NAME [--slots N] [--window N] [--threads N] [--stop TEXT ...] [--template FILE]."""

import argparse
import signal

import xllamacpp

flags = argparse.ArgumentParser()
flags.add_argument("model")
flags.add_argument("port", type=int)
flags.add_argument("name")
flags.add_argument("--slots", type=int, default=4)
flags.add_argument("--window", type=int, default=2048, help="tokens of one slot")
flags.add_argument("--threads", type=int, default=1, help="two that wait for each other are slow on busy processors")
flags.add_argument("--stop", action="append", default=[], help="text that ends an answer whose request names no stop of its own (llama-server's --reverse-prompt)")
flags.add_argument("--template", help="a file with a chat template in place of the model's (llama-server's --chat-template-file)")
a = flags.parse_args()

p = xllamacpp.CommonParams()
p.model.path, p.port, p.model_alias = a.model, a.port, {a.name}
p.n_parallel, p.n_ctx, p.cpuparams.n_threads = a.slots, a.slots * a.window, a.threads
p.cpuparams_batch.n_threads = a.threads
p.antiprompt = a.stop
if a.template:
    with open(a.template) as template:
        p.chat_template, p.use_jinja = template.read(), True
p.endpoint_metrics = p.endpoint_slots = True
signal.signal(signal.SIGTERM, signal.SIG_DFL)
server = xllamacpp.Server(p)
print("listening on", server.listening_address, flush=True)
signal.pause()
