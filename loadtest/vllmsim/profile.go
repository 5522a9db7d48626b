package vllmsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Profile is what one model costs on one kind of hardware. A step takes
//
//	Base + prefill tokens*PerPrefillToken + decoding sequences*PerSeq + KV tokens read*PerKVToken   (seconds)
//
// which is the roofline of a decoder: weights are read once per step, prefill is bound by arithmetic, attention by
// reading the cache.
type Profile struct {
	Name             string
	GPUs             int // of one server
	Blocks           int // num_gpu_blocks, the null block included
	MaxBatchedTokens int
	MaxSeqs          int
	Base             float64
	PerPrefillToken  float64
	PerSeq           float64
	PerKVToken       float64
	LMHead           float64 // share that a prefill token costs more when its own logprobs are wanted: the output layer runs for every token
}

// BlockSize is the number of tokens in a KV block: vLLM's default on GPUs.
const BlockSize = 16

var profiles = map[string]Profile{
	// Llama-3.1-8B, 4-bit weights, on an A10G: 24 GB, 600 GB/s, 70 dense fp16 TFLOPS.
	// Blocks: 22.3 GiB*0.92 - 5.3 weights (5.7 GB) - 1.4 activations and graphs = 13.8 GiB at 128 KiB/token = 113k tokens.
	// Base: 5.7 GB at 75 % of 600 GB/s = 12.7 ms, and 1.3 ms of launches. PerSeq: 4-bit kernels stop being bandwidth
	// bound early; 0.35 ms puts 32 sequences of 1000 tokens at 35 ms, inside the 26-42 ms that users report under load.
	// PerKVToken: 128 KiB at 70 % of 600 GB/s. PerPrefillToken: 16 GFLOP at 57 % of 70 TFLOPS.
	"a10g-8b": {GPUs: 1, Blocks: 7070, MaxBatchedTokens: 2048, MaxSeqs: 256,
		Base: 14e-3, PerPrefillToken: 0.4e-3, PerSeq: 0.35e-3, PerKVToken: 0.312e-6, LMHead: 0.075},
	// Llama-3.1-70B, bf16, tensor parallel over four H100: 4*3.35 TB/s, 4*990 dense bf16 TFLOPS.
	// Blocks: 140 GiB left for KV at 320 KiB/token = 459k tokens.
	// Base: 35 GB per GPU at 80 % of 3.35 TB/s = 13.1 ms, 160 all-reduces of 20 us = 3.2 ms, launches and sampling 5 ms.
	// PerSeq: 140 GFLOP at 45 % of 3960 TFLOPS. PerKVToken: 80 KiB per GPU at 70 % of 3.35 TB/s.
	// PerPrefillToken: the same arithmetic at 35 %, as prefill pays attention and communication too.
	"h100-70b-tp4": {GPUs: 4, Blocks: 28672, MaxBatchedTokens: 8192, MaxSeqs: 1024,
		Base: 21e-3, PerPrefillToken: 0.1e-3, PerSeq: 0.08e-3, PerKVToken: 0.035e-6, LMHead: 0.015},
	// Llama-3.1-70B, FP8 weights and cache, tensor parallel over two H100: the target of docs/science.md, Cost model.
	// Blocks: 2*79.2 GiB*0.92 - 66.1 weights (71 GB) - 2*3.9 = 71.8 GiB at 160 KiB/token = 470k tokens.
	// Base: 71 GB at 65 % of 6.7 TB/s = 16.3 ms, and 2 ms of all-reduces and launches. PerKVToken: 80 KiB per GPU at 70 % of
	// 3.35 TB/s. PerSeq: what is left of the 0.05 ms per sequence that the document finds between a batch of 1 and of 128,
	// after reading the 600 tokens of each; so 18.4 ms at 1, 19.9 at 32, 21.5 at 64, 24.7 at 128. PerPrefillToken: 141 GFLOP
	// at 40 % of 2*1979 dense fp8 TFLOPS, 11.2k tokens/s. LMHead: 2*128256*8192 of 141 GFLOP, in bf16 at half the speed.
	"h100-70b-fp8-tp2": {GPUs: 2, Blocks: 29408, MaxBatchedTokens: 8192, MaxSeqs: 1024,
		Base: 18.3e-3, PerPrefillToken: 0.0893e-3, PerSeq: 0.029e-3, PerKVToken: 0.035e-6, LMHead: 0.03},
	// Llama-3.1-8B, bf16, on an A100-80GB: 2.0 TB/s, 312 dense bf16 TFLOPS; vLLM's A100 defaults 2048/256.
	// Blocks: 79.2 GiB*0.92 - 15 weights - 2.9 = 55 GiB at 128 KiB/token = 450k tokens.
	// Base: 16 GB at 80 % of 2.0 TB/s = 10 ms, and 1.5 ms. PerKVToken: 128 KiB at 70 % of 2.0 TB/s.
	// PerPrefillToken: 16 GFLOP at 45 % of 312 TFLOPS; PerSeq: at 90 %, as it overlaps with reading weights.
	"a100-8b": {GPUs: 1, Blocks: 28160, MaxBatchedTokens: 2048, MaxSeqs: 256,
		Base: 11.5e-3, PerPrefillToken: 0.114e-3, PerSeq: 0.057e-3, PerKVToken: 0.094e-6, LMHead: 0.075},
	// Llama-3.1-8B, bf16, on an H100-80GB: 3.35 TB/s, 990 dense bf16 TFLOPS; vLLM's H100 defaults 8192/1024.
	// Blocks: 79.2 GiB*0.92 - 15 weights - 3.9 = 54 GiB at 128 KiB/token = 442k tokens, about 28k blocks.
	// Base: 16 GB at 80 % of 3.35 TB/s = 6 ms, and 1.5 ms. The others as on the A100.
	"h100-8b": {GPUs: 1, Blocks: 27648, MaxBatchedTokens: 8192, MaxSeqs: 1024,
		Base: 7.5e-3, PerPrefillToken: 0.036e-3, PerSeq: 0.018e-3, PerKVToken: 0.056e-6, LMHead: 0.075},
	// Llama-2-13B, 4-bit weights, on an A10G: full multi-head attention, so 800 KiB of KV per token and little room.
	// Blocks: 20.5 - 6.8 weights (7.3 GB) - 1.4 = 12.3 GiB = 16.1k tokens. Base: 7.3 GB at 75 % of 600 GB/s = 16.2 ms, and 1.5.
	// PerKVToken: 800 KiB at 70 % of 600 GB/s. PerPrefillToken: 26 GFLOP at 57 % of 70 TFLOPS. PerSeq: the 0.35 ms of
	// a10g-8b, which is arithmetic, times 26/16 GFLOP. LMHead: 2*32000*5120 of 26 GFLOP.
	"a10g-13b": {GPUs: 1, Blocks: 1007, MaxBatchedTokens: 2048, MaxSeqs: 256,
		Base: 17.7e-3, PerPrefillToken: 0.65e-3, PerSeq: 0.57e-3, PerKVToken: 1.95e-6, LMHead: 0.013},
}

// ProfileNames returns the known profiles.
func ProfileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// ProfileByName returns a profile.
func ProfileByName(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("vllmsim: unknown profile %q; known: %s", name, strings.Join(ProfileNames(), ", "))
	}
	p.Name = name
	return p, nil
}

// UsualSequences are the sequences that a server decodes at a usual load.
const UsualSequences = 64

// Rates returns what a server makes with so many sequences of 600 tokens, or as many as it has seats for: prompt tokens per
// second, and tokens of answers per second.
func (p *Profile) Rates(sequences int) (prefill, decode float64) {
	seqs := min(p.MaxSeqs, sequences)
	return 1 / p.PerPrefillToken, float64(seqs) / p.stepTime(work{decoding: seqs, kvRead: 600 * seqs}).Seconds()
}

// stepTime returns how long a step with this much work takes.
func (p *Profile) stepTime(w work) time.Duration {
	s := p.Base + float64(w.prefill)*p.PerPrefillToken + float64(w.scored)*p.PerPrefillToken*p.LMHead +
		float64(w.decoding)*p.PerSeq + float64(w.kvRead)*p.PerKVToken
	return time.Duration(s * 1e9)
}

// work is what a step has to do.
type work struct{ prefill, scored, decoding, kvRead int }
