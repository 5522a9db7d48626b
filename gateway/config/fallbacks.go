package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/foregate/foregate/tiers/dialect"
)

// Fallback is a hosted last resort of a route.
type Fallback struct {
	Pool          string   `yaml:"pool"`                                          // of hosted servers, paid by the token
	When          []string `yaml:"when" default:"unavailable"`                    // of FallbackReasons, at least one; default: unavailable
	MaxUSDPerHour float64  `yaml:"max_usd_per_hour" min:"0.000001" max:"1000000"` // what all replicas together may spend on it in an hour of the UTC calendar, above 0
}

// The reasons for which a request may leave for a [Fallback].
const (
	WhenUnavailable = "unavailable" // the route's own pools cannot answer
	WhenShed        = "shed"        // the request was refused admission
)

const (
	maxFallbacks = 4 // of a route
)

// PaidByToken reports whether the pool has prices of tokens: then it can be a fallback.
func (p Pool) PaidByToken() bool { return p.USDPerMillionInput > 0 || p.USDPerMillionOutput > 0 }

// checkFallbacks checks the fallbacks of a route.
func (r reader) checkFallbacks(path string, f *File, all []Fallback) {
	if len(all) > maxFallbacks && r.Sound(path) {
		r.Fail(path, "there are %d; at most %d are tried, one after the other", len(all), maxFallbacks)
	}
	seen := map[string]int{}
	for i, fb := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		r.checkWhen(at+".when", fb.When)
		if !r.Has(at + ".max_usd_per_hour") {
			r.Fail(at+".max_usd_per_hour", "missing; give the dollars that all replicas together may spend on it in an hour")
		}
		name := at + ".pool"
		if !r.Has(name) {
			r.Fail(name, "missing; name a pool of hosted servers (defined: %s)", poolNames(f))
			continue
		}
		r.checkPoolName(name, fb.Pool, f)
		if first, twice := seen[fb.Pool]; twice && r.Sound(name) {
			r.Fail(name, "%s[%d] is this pool already; remove one", path, first)
		}
		seen[fb.Pool] = i
		if p, ok := f.Pools[fb.Pool]; ok && r.Sound(name) {
			r.checkHosted(name, fb.Pool, p)
		}
	}
}

func (r reader) checkWhen(path string, when []string) {
	if r.Has(path) && len(when) == 0 && r.Sound(path) {
		r.Fail(path, "the list is empty; want unavailable, shed or both")
	}
	for i, w := range when {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !r.Sound(at):
		case w != WhenUnavailable && w != WhenShed:
			r.Fail(at, "want unavailable or shed")
		case slices.Contains(when[:i], w):
			r.Fail(at, "is listed already; remove one")
		}
	}
}

// checkHosted checks that a pool can be a fallback. at is where a route names it.
func (r reader) checkHosted(at, name string, p Pool) {
	path := "pools." + name
	switch {
	case !r.Sound(path):
	case p.Engine != string(dialect.OpenAI) && r.Sound(path+".engine"):
		r.Fail(at, "pool %s is not OpenAI-compatible only; a fallback needs engine: openai", name)
	case !r.Has(path+".usd_per_million_input") || !r.Has(path+".usd_per_million_output"):
		r.Fail(at, "pool %s has no prices; a fallback needs usd_per_million_input and usd_per_million_output", name)
	case p.Discover != "":
		r.Fail(at, "pool %s is discovered; a fallback needs backends: [https://…]", name)
	case p.Scheduler == SchedulerPriority:
		r.Fail(at, "pool %s has scheduler; a hosted server gets nothing of it, remove it", name)
	default:
		r.checkSecure(path, p)
	}
}

// checkSecure checks that the backends of a fallback are reached by https.
func (r reader) checkSecure(path string, p Pool) {
	for i, raw := range p.Backends {
		if backend := fmt.Sprintf("%s.backends[%d]", path, i); !secure(raw) && r.Sound(backend) {
			r.Fail(backend, "the pool is a fallback; want https://, so that nobody on the way reads prompts and the key")
		}
	}
}

// secure reports whether a backend is reached by https, or on this machine.
func secure(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "https" {
		return true // a mistake in the URL is reported elsewhere
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// checkTokenPrices checks the prices of tokens of a pool.
func (r reader) checkTokenPrices(path string, name string, f *File) {
	p := f.Pools[name]
	in, out := path+".usd_per_million_input", path+".usd_per_million_output"
	if !r.Has(in) && !r.Has(out) || !r.Sound(path) {
		return
	}
	switch {
	case !r.Has(out):
		r.Fail(in, "needs usd_per_million_output, the price of generated tokens")
	case !r.Has(in):
		r.Fail(out, "needs usd_per_million_input, the price of prompt tokens")
	case !p.PaidByToken() && r.Sound(in) && r.Sound(out):
		r.Fail(in, "both prices are 0, so max_usd_per_hour would bound nothing; give the prices of the provider")
	case p.USDPerHour > 0:
		r.Fail(in, "usd_per_hour is given as well; a pool is paid by the hour or by the token")
	}
	for i, rt := range f.Routes {
		for _, role := range []struct{ field, pool string }{{"draft", rt.Draft}, {"target", rt.Target}} {
			if at := fmt.Sprintf("routes[%d].%s", i, role.field); role.pool == name && r.Has(at) && r.Sound(at) {
				r.Fail(at, "pool %s is paid by the token, as only fallbacks are; define a second pool with the same backends and without these prices", name)
			}
		}
	}
}
