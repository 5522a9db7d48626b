// Package kvevents tracks which backend holds which KV blocks, from the events that vLLM publishes about its
// prefix cache. Start at [New]. [Index.Follow] subscribes to one engine of a backend (one data-parallel
// rank). [Index.Cached] returns how many tokens of a prompt a backend holds. A prompt is identified by its
// [Chain]: hashes of its blocks of token ids. This package computes these hashes itself, because vLLM's own
// are opaque. A [Tokenizer] learns the chains of chat prompts from a backend. It guarantees that the index
// holds only events that were received in order, from a feed that is connected. When a feed breaks, misses a
// message or sends something that cannot be decoded, everything from it is forgotten: no information is
// better than wrong information. Input from backends is bounded (8 MiB per message, [Options.MaxBlocks] per
// backend) and never causes a panic. The package imports nothing else of Foregate.
package kvevents
