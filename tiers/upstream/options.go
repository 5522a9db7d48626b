package upstream

import (
	"net/http"
	"time"
)

const defaultMaxBody = 16 << 20 // bytes

// Options configure a Client.
type Options struct {
	NetHTTP   bool              // attempts use net/http's client instead of package http1
	Transport http.RoundTripper // for everything, with NetHTTP; nil is NewTransport, with Dial
	Dial      func() Dial       // live, for the default transports; nil is DefaultDial
	MaxBody   int64             // of an answer that is not a stream; 0 is 16 MiB
	Now       func() time.Time  // nil is time.Now
}

// complete sets the defaults.
func (o Options) complete() Options {
	o.NetHTTP = o.NetHTTP || o.Transport != nil
	if o.Transport == nil {
		o.Transport = newTransport(dialer{o.Dial})
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
