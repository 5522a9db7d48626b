// Package openai implements the wire format of the OpenAI API as vLLM speaks it: it scans and edits requests,
// reads server-sent events and answer chunks, and writes frames, answers and error bodies. Requests are read
// in one strict pass. It decodes a few scalars and keeps the rest as raw spans, so the forwarded bytes are
// exactly the validated ones; edits replace spans. Start at [Scan] for requests, and at [EventReader] with
// [ChunkParser] for answers. An [Assembler] builds a [Whole] from a streamed answer, from which a [Framer]
// writes the answer again; [Request.Canonical] identifies the request that it answers.
package openai
