// Package contentlog exports a share of the generations as log records to an OpenTelemetry collector, with the names of
// the conventions for generative AI. The content of requests and answers is exported only if it is configured; headers
// and keys never are. Start at [Log].
package contentlog
