package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
)

// Use is what a pool's credentials are shown for.
type Use uint8

// The uses. They are told apart because engines and proxies guard some paths only: vLLM wants its key for /v1/… alone.
const (
	ForRequests    Use = iota // requests of the cascade, and probes
	ForPassthrough            // requests that are forwarded unchanged
	ForScrapes                // /metrics and /health
)

// useNames are the uses in the reason why a backend is bad.
var useNames = [...]string{"requests", "passthrough", "scrapes"}

// mismatch is a refusal of the credentials that were shown. It is over when there are new ones.
type mismatch struct {
	why   *credentials.Refusal // nil: none
	shown *credentials.Credentials
}

// refusalLogInterval is the shortest time between two log lines of one pool about refused credentials.
const refusalLogInterval = time.Minute

// Credentials returns what the pool shows to its engines now. A nil pool shows nothing.
func (p *Pool) Credentials() *credentials.Credentials {
	if p == nil {
		return nil
	}
	return p.o.Credentials.Now()
}

// setting is the setting that a refusal is about.
func (p *Pool) setting(r *credentials.Refusal) string {
	if r.Status != 0 {
		return "pools." + p.o.Name + ".auth"
	}
	return "pools." + p.o.Name + ".tls"
}

// refusal returns why the backend is bad: which of the pool's settings does not fit it, "" for none. The caller holds mu.
func (p *Pool) refusal(b *backend) string {
	in := p.Credentials()
	for use, r := range b.refusals {
		if r.why != nil && r.shown == in {
			return fmt.Sprintf("%s: %v (%s)", useNames[use], r.why, p.setting(r.why))
		}
	}
	return ""
}

// NoteProbe records how a probe of a backend ended that has shown these credentials of the pool. An error that is no
// refusal says nothing.
func (p *Pool) NoteProbe(backend string, shown *credentials.Credentials, err error) {
	if b := p.named(backend); b != nil {
		p.noteCredentials(b, ForRequests, shown, err)
	}
}

// noteCredentials records the end of something that has shown credentials: nil, or an error. One that is no refusal says
// nothing.
func (p *Pool) noteCredentials(b *backend, use Use, shown *credentials.Credentials, err error) {
	if err == nil && !b.refuses.Load() {
		return // the usual case; this runs for every request
	}
	why := credentials.RefusalOf(err)
	if err != nil && why == nil {
		return
	}
	now, tell := p.o.Now(), false
	p.locked(func() {
		b.refusals[use] = mismatch{why, shown}
		b.refuses.Store(slices.ContainsFunc(b.refusals[:], func(r mismatch) bool { return r.why != nil }))
		if tell = why != nil && (p.refusalLogged.IsZero() || now.Sub(p.refusalLogged) >= refusalLogInterval); tell {
			p.refusalLogged = now
		}
	})
	if tell {
		p.log.Error().Str("backend", b.id).Str("setting", p.setting(why)).Err(why).
			Msg("an engine refuses the pool's credentials, or they do not fit it: the setting is at fault, not a client")
	}
}

// wrongModel is the answer of a backend that does not serve the pool's model.
type wrongModel struct {
	path string // that it was asked at
	why  string
}

// ReportModel says that the backend answers for the pool's model. It is cheap.
func (l *Lease) ReportModel() { l.pool.noteModel(l.backend) }

// ReportWrongModel says that the backend does not serve the pool's model at this path, and what it said instead.
func (l *Lease) ReportWrongModel(path, said string) {
	p, b := l.pool, l.backend
	w := &wrongModel{path, fmt.Sprintf("serves another model than %s, or not at %s%s", p.o.Model, path, said)}
	if b.wrong.Swap(w) == nil {
		p.log.Error().Str("backend", b.id).Msg(w.why)
	}
}

// noteModel records that a backend answers for the pool's model.
func (p *Pool) noteModel(b *backend) {
	if b.wrong.Load() != nil && b.wrong.Swap(nil) != nil {
		p.log.Info().Str("backend", b.id).Msg("backend serves the pool's model again")
	}
}

// modelProblem returns how b does not serve the pool's model; "" if it does, as far as known.
func (b *backend) modelProblem() string {
	if w := b.wrong.Load(); w != nil {
		return w.why
	}
	return ""
}
