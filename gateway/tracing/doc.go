// Package tracing exports requests as OpenTelemetry traces, by OTLP over HTTP, with the names of the semantic
// conventions for generative AI. Start at [New]. During a request only ids are assigned ([Tracer.Begin]).
// [Tracer.End] makes the spans from the request's receipt after its end, and the SDK's processor sends them. So no request
// waits for a collector or fails because of one: spans that the bounded queue or the collector does not take are dropped. Spans hold names, counts, times and reasons, never keys; prompts and answers only where the tenant opted in.
package tracing
