package config

import "github.com/foregate/foregate/internal/yamlfile"

// Engines configures the connections to the backends of all pools.
type Engines struct {
	HTTPClient string // HTTPClientOwn or HTTPClientNetHTTP
}

// The HTTP clients of [Engines].
const (
	HTTPClientOwn     = "http1"    // the gateway's own, the default
	HTTPClientNetHTTP = "net_http" // that of Go's standard library
)

func readEngines(to *Engines, b *yamlfile.Fields) {
	b.At("http_client").Text(&to.HTTPClient)
	b.Done()
}

func (r reader) checkEngines(e Engines) {
	const path = "engines.http_client"
	if e.HTTPClient != HTTPClientOwn && e.HTTPClient != HTTPClientNetHTTP && r.Sound(path) {
		r.Fail(path, "unknown client; want %s or %s", HTTPClientOwn, HTTPClientNetHTTP)
	}
}
