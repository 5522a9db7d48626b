package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

// maxRefitLease bounds the lease of refits.
const maxRefitLease = 10 * time.Minute

// recordOf is the field with the record of a route's refits.
func recordOf(route string) string { return "route:" + route }

// LeaseRefits takes or renews the lease of the replica that works on refits, and reports whether it has it. who is at
// most 64 of A-Z, a-z, 0-9 and -. Without a Redis this process has it.
func (b *Store) LeaseRefits(ctx context.Context, who string, d time.Duration) (bool, error) {
	if !ticketShape.MatchString(who) || d <= 0 || d > maxRefitLease {
		return false, fmt.Errorf("evidence: no lease of %s for %.80q", d, who)
	}
	if b.local != nil {
		return true, nil
	}
	got, err := b.call(ctx, refitScript, []string{keyRefits}, "lease", who, d.Milliseconds())
	return got == int64(1), err
}

// Refits returns the records of the routes' refits, in their order; "" is none. Their content is opaque to this package,
// and foreign: a record may be anything.
func (b *Store) Refits(ctx context.Context, routes []string) ([]string, error) {
	out := make([]string, len(routes))
	if len(routes) == 0 {
		return out, nil
	}
	if b.local != nil {
		b.local.mu.Lock()
		defer b.local.mu.Unlock()
		for i, route := range routes {
			out[i] = b.local.refits[route]
		}
		return out, nil
	}
	fields := make([]string, len(routes))
	for i, route := range routes {
		fields[i] = recordOf(route)
	}
	var cmd *redis.SliceCmd
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) { cmd = p.HMGet(ctx, keyRefits, fields...) })
	if err != nil {
		return nil, err
	}
	if err := cmd.Err(); err != nil {
		return nil, b.failed(err)
	}
	for i, v := range cmd.Val() {
		if s, _ := v.(string); len(s) <= maxValue {
			out[i] = s
		}
	}
	return out, nil
}

// WriteRefit replaces the record of a route's refits. It reports false if the record is not was any more.
func (b *Store) WriteRefit(ctx context.Context, route, was, next string) (bool, error) {
	if _, err := nameOf(risk.Key{Route: route, TrafficClass: "-"}); err != nil {
		return false, err
	}
	if len(next) > maxValue {
		return false, fmt.Errorf("evidence: a record of %d bytes, want %d at most", len(next), maxValue)
	}
	if b.local != nil {
		return b.local.writeRefit(route, was, next), nil
	}
	got, err := b.call(ctx, refitScript, []string{keyRefits}, "write", recordOf(route), was, next)
	return got == int64(1), err
}

func (l *local) writeRefit(route, was, next string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refits[route] != was || was == "" && len(l.refits) >= maxKeys {
		return false
	}
	if l.refits == nil {
		l.refits = make(map[string]string)
	}
	l.refits[route] = next
	return true
}
