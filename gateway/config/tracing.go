package config

// Tracing configures where traces are sent, and for which share of the requests.
type Tracing struct {
	OTLP        string  `yaml:"otlp"`                                 // base URL of a collector that takes OTLP over HTTP, without a trailing slash; "" is none, and no tracing
	Sample      float64 `yaml:"sample" default:"0.1" min:"0" max:"1"` // share of the requests without a traceparent, 0 … 1; default 0.1
	HeadersFile string  `yaml:"headers_file"`                         // path of the headers that the collector wants, such as its key; "" is none
}

func (r reader) checkTracing(t *Tracing) {
	const otlp, headers = "tracing.otlp", "tracing.headers_file"
	if r.Has(headers) {
		r.checkPath(headers, t.HeadersFile, "")
	}
	switch {
	case !r.Has("tracing") || !r.Sound("tracing") || !r.Sound(otlp):
	case !r.Has(otlp):
		r.Fail(otlp, "missing; give the collector's URL, such as http://collector:4318, or remove tracing")
	default:
		clean, err := collectorURL(t.OTLP, "/v1/traces")
		if err != nil {
			r.Fail(otlp, "%v", err)
		}
		t.OTLP = clean
	}
}

// collectorURL checks a collector's base URL and returns its canonical form; tail is the path that is added to it. Errors
// never repeat it.
func collectorURL(raw, tail string) (string, error) {
	return server{
		like: "http://collector:4318", secrets: "credentials do not belong in the URL; put the header that the collector wants into headers_file",
		tail: tail, adds: "the path",
	}.url(raw)
}
