// Package kvevents knows which backend has which KV blocks, from the events that vLLM publishes about its prefix cache.
//
// Start with [New]; [Index.Follow] listens to one engine of a backend (one data-parallel rank), [Index.Cached] answers how
// many tokens of a prompt a backend has. A prompt is asked for by its [Chain], hashes of its blocks of token ids that this
// package makes itself, as vLLM's own are opaque; a [Tokenizer] learns the chains of chat prompts from a backend.
//
// The package guarantees: it believes what it has heard, in order, from a feed that is up, and nothing else. A feed that
// breaks, misses a message or says what cannot be understood is forgotten: not knowing is better than being wrong. What a
// backend sends is bounded (8 MiB a message, [Options.MaxBlocks] a backend) and never makes it panic. It imports nothing
// of Foregate's.
package kvevents
