"""Gives the tools what their packages lack: torch, from vLLM's environment, and a tokenizer where a program without a network looks for it."""

import pathlib
import shutil
import sys
import sysconfig

home = pathlib.Path(sys.argv[1])
packages = next((home / "vllm" / "lib").glob("python3*")) / "site-packages"
pathlib.Path(sysconfig.get_path("purelib"), "behind.pth").write_text(f"{packages}\n")  # searched last

cache = home / "hf" / "hub" / "models--local--smol-target"
shutil.rmtree(cache, ignore_errors=True)
snapshot = "0" * 40
(cache / "refs").mkdir(parents=True)
(cache / "refs" / "main").write_text(snapshot)
(cache / "snapshots").mkdir()
(cache / "snapshots" / snapshot).symlink_to(home / "models" / "smol-target")
