package discover

import (
	"context"
	"net"
)

// Options are how backends are found and reached. The zero value works.
type Options struct {
	Resolver Resolver // nil is net.DefaultResolver
	HTTPS    bool     // all backends are reached by https
}

// scheme is that of backends whose source does not tell one.
func (o *Options) scheme() string {
	if o.HTTPS {
		return "https"
	}
	return "http"
}

// Resolver answers DNS questions; net.DefaultResolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

var _ Resolver = net.DefaultResolver
