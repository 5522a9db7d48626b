// Package tracing tells a collector how requests went: OpenTelemetry's traces, sent as OTLP over
// HTTP, with the names of the semantic conventions for generative AI. Start at [New].
//
// A request on its way is only given ids ([Tracer.Begin]); its spans are made of its receipt when
// it is over, by [Tracer.Run]. So it guarantees that no request waits for a collector or fails
// with one: what a bounded queue cannot take, or a collector does not, is dropped and counted.
// Spans hold names, counts, times and reasons, never prompts, answers or keys.
package tracing
