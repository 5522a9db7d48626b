// Package openai knows the wire: it scans and edits requests, reads
// server-sent events and answer chunks, and writes frames, answers and error
// bodies in the shape of the OpenAI API as vLLM speaks it.
//
// Requests are read by one strict pass that decodes a few scalars and keeps all
// else as raw spans, so that what is forwarded is what was validated; edits are
// splices of those spans. Start at [Scan] for requests and at [EventReader]
// with [ChunkParser] for answers. An [Assembler] makes a [Whole] of an answer that went by, from which
// a [Framer] writes it again; [Request.Canonical] says which request it answers.
package openai
