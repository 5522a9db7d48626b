package upstream

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
)

const defaultMaxBody = 16 << 20 // bytes

// Options configure a Client.
type Options struct {
	Transport http.RoundTripper // for everything, whatever the TLS; nil is NewTransports, with Connect

	// Connect bounds the time until a TCP connection of the default transports is established, live; nil is ConnectTimeout.
	Connect func() time.Duration

	MaxBody int64            // of an answer that is not a stream; 0 is 16 MiB
	Now     func() time.Time // nil is time.Now
}

// complete sets the defaults.
func (o Options) complete() Options {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// transports are the client's.
func (o *Options) transports() *credentials.Transports {
	if o.Transport == nil {
		return newTransports(dialer{o.Connect})
	}
	return credentials.NewTransports(func(*tls.Config) http.RoundTripper { return o.Transport })
}
