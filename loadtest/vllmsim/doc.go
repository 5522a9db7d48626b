// Package vllmsim is a vLLM server without a GPU: it answers the OpenAI routes that vLLM answers, in vLLM's own shapes,
// and behaves under load as vLLM's V1 scheduler does.
//
// Start with [New] and [Server.Start], or in tests with [Start]. Three parts stand behind the wire:
//
//   - [Model], a seeded pseudo language model whose next-token distributions are known exactly, so that a test can say
//     what an acceptance rule should have decided. A draft is the same language with [Options.Divergence] above zero.
//   - [Scheduler], a pure step machine over values and a given time: token budget, seats, KV blocks, prefix cache,
//     preemption by recompute. It owns no goroutine and reads no clock; the engine loop (engine.go) drives it in real,
//     scaled time, and a virtual-time lab may drive it as it likes.
//   - [Profile], the speeds of one model on one kind of GPU.
//
// testdata/engines has what each kind of engine answers; the form of answers is held to recordings of a real vLLM (testdata/wire of the repository).
//
// A server may speak the wire of another engine ([Options.Engine], face.go): SGLang or any server
// of OpenAI's API, each with its own routes, members, errors, metrics and shapes of answers. Where the wires were read, and at which versions:
//
//	engine    version imitated         read in
//	vllm      0.28.0                   vllm/entrypoints, vllm/v1 (see testdata/engines)
//	sglang    0.5.20                   sgl-project/sglang srt/entrypoints/openai: protocol.py@004c82e, serving_chat.py@002897c,
//	                                   serving_base.py@c5695a4, serving_tokenize.py@0351c1f, sse_utils.py@0671305
//	openai    API specification 2.3.0  OpenAI's published specification, from memory
//
// Routes, members and metrics that no gateway reads are left out.
//
// For what verifies drafts there is more: a server may lack a feature ([Options.Without]), number its tokens otherwise
// ([Options.Tokenizer]), fail at scoring alone ([Fault.Score]), and is a judge when it is asked the question of one ([Model.Judge]).
//
// The package guarantees: the same options and the same request give the same answer, whatever the load; generating on
// from prompt and prefix ids gives what one go would have given, unless the request holds the answer to a format: as in
// vLLM, that grammar begins at the first token generated and does not see the prompt, so that the answer begins anew; a
// client that hangs up frees its blocks before the next step is scheduled. It shares no code with the gateway, so that it
// can be wrong only on its own account.
package vllmsim
