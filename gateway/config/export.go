package config

import (
	"slices"
)

// Export configures where the content of requests is sent, how much of it, and for which share of them.
type Export struct {
	OTLPLogs    string  `yaml:"otlp_logs"`                            // base URL of a collector that takes OTLP over HTTP, without a trailing slash; "" is none, and no export
	Share       float64 `yaml:"share" default:"0.01" min:"0" max:"1"` // share of the requests, 0 … 1; default 0.01
	Content     string  `yaml:"content" default:"none"`               // ContentNone, ContentInput or ContentFull
	HeadersFile string  `yaml:"headers_file"`                         // path of the headers that the collector wants, such as its key; "" is none
}

// What is exported of a request.
const (
	ContentNone  = "none"  // its facts only: model, tokens, finish reason
	ContentInput = "input" // and its messages
	ContentFull  = "full"  // and the answer
)

func (r reader) checkExport(e *Export) {
	const otlp, headers, content = "export.otlp_logs", "export.headers_file", "export.content"
	if r.Has(headers) {
		r.checkPath(headers, e.HeadersFile, "")
	}
	if r.Sound(content) && !slices.Contains([]string{ContentNone, ContentInput, ContentFull}, e.Content) {
		r.Fail(content, "unknown content %q; want none, input or full", e.Content)
	}
	switch {
	case !r.Has("export") || !r.Sound("export") || !r.Sound(otlp):
	case !r.Has(otlp):
		r.Fail(otlp, "missing; give the collector's URL, such as http://collector:4318, or remove export")
	default:
		clean, err := collectorURL(e.OTLPLogs, "/v1/logs")
		if err != nil {
			r.Fail(otlp, "%v", err)
		}
		e.OTLPLogs = clean
	}
}
