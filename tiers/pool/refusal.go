package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
)

// refusalLogInterval is the shortest time between two log lines of one pool about refused credentials.
const refusalLogInterval = time.Minute

// Credentials returns what the pool shows to its engines now. A nil pool shows nothing.
func (p *Pool) Credentials() *credentials.Credentials {
	if p == nil {
		return new(credentials.Live).Now()
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
		if why := r.now(in); why != nil {
			return fmt.Sprintf("%s: %v (%s)", useNames[use], why, p.setting(why))
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
		if tell = why != nil && !p.retired.Load() && (p.refusalLogged.IsZero() || now.Sub(p.refusalLogged) >= refusalLogInterval); tell {
			p.refusalLogged = now
		}
	})
	p.showRefusal(b)
	if tell {
		p.log.Error().Str("backend", b.id).Str("setting", p.setting(why)).Err(why).
			Msg("an engine refuses the pool's credentials, or they do not fit it: the setting is at fault, not a client")
	}
}

// showRefusal updates the metric, which a retired pool shares with the one that has replaced it.
func (p *Pool) showRefusal(b *backend) {
	if p.retired.Load() {
		return
	}
	refuses := false
	p.locked(func() { refuses = p.refusal(b) != "" })
	v := 0.0
	if refuses {
		v = 1
	}
	b.metrics.refuses.Set(v)
}
