package probe

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// Topic names what replicas tell each other. It changes with the questions and with the shape of a record.
const Topic = "probe:3"

const (
	// maxRecord bounds a record, in bytes; reasons are cut to fit.
	maxRecord = 1900
	maxReason = 100 // bytes of a reason in a record

	keptFor  = time.Hour        // by a replica that finds the engine unchanged
	patience = 60 * time.Second // while the replica that asks is taken to live
)

// record is what a replica tells of an engine.
type record struct {
	Card  modelCard
	Found Capabilities
}

// heard is what another replica told, or this one before it was started anew.
type heard struct {
	*record
	at time.Time // when it was told, by this replica's clock
}

// encode returns a record as others read it; "" where it is too long.
func (r record) encode() string {
	r.Found.Missing = slices.Clone(r.Found.Missing)
	for i := range r.Found.Missing {
		why := line(r.Found.Missing[i].Reason)
		r.Found.Missing[i].Reason = why[:min(len(why), maxReason)]
	}
	body, err := json.Marshal(r)
	if err != nil || len(body) > maxRecord {
		return ""
	}
	return string(body)
}

// parseRecord reads a record; nil is none.
func parseRecord(text string) *record {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	r := &record{}
	if len(text) > maxRecord || d.Decode(r) != nil || d.More() || r.Found.Backend == "" {
		return nil
	}
	return r
}

// Tell returns what this replica has found out, by pool: what is new, and now and then all.
func (p *Prober) Tell() map[string]string {
	out := map[string]string{}
	for name, w := range p.watches() {
		w.mu.Lock()
		if now := time.Now(); w.told != "" && now.Sub(w.last) >= p.pace.told {
			out[name], w.last = w.told, now
		}
		w.mu.Unlock()
	}
	return out
}

// Take takes what a replica, perhaps this one, has told of a pool some time ago. What is no record is ignored.
func (p *Prober) Take(pool, text string, age time.Duration) {
	w := p.watches()[pool]
	if w == nil || age > keptFor {
		return
	}
	r := parseRecord(text)
	if r == nil || r.Found.Model != w.pool.Model {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = heard{r, time.Now().Add(-age)}
}

// keep keeps what is known for Tell. What another has told is his to tell.
func (w *watch) keep(c *Capabilities) {
	text := ""
	if w.taken == nil && w.states[0].known {
		text = record{w.run.model, *c}.encode()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != w.told {
		w.told, w.last = text, time.Time{}
	}
}

// lastHeard is the last record, if it is of an engine that is in the set, and of no life before this one.
func (w *watch) lastHeard(set []Backend) (h heard, b Backend, ok bool) {
	w.mu.Lock()
	h = w.heard
	w.mu.Unlock()
	if h.record == nil || h.at.Before(w.born) {
		return h, b, false
	}
	at := find(set, h.Found.Backend)
	if at < 0 || !set[at].like(Backend{Engine: h.Found.Engine}) {
		return h, b, false
	}
	return h, set[at], true
}

// takeOver takes over what the replica that asks has found out, and reports whether this one leaves the asking to it.
func (w *watch) takeOver(set []Backend, now time.Time) bool {
	if w.prober.Mine(w.pool.Name, w.backend.ID) {
		w.taken = nil
		return false
	}
	h, b, ok := w.lastHeard(set)
	switch {
	case !ok || now.Sub(h.at) > patience:
		w.taken = nil
		return now.Sub(w.since) < patience && !w.states[0].known
	case w.taken != h.record:
		w.adopt(h, b)
		w.taken = h.record
		w.publish()
	}
	return true
}

// recall takes over what was found out before this replica was started, if the engine's card is the same.
func (w *watch) recall() {
	h, b, ok := w.lastHeard([]Backend{w.backend})
	same := ok && h.Card == w.run.model && (h.Card.Start != "" || time.Since(h.at) <= patience)
	if !same || slices.ContainsFunc(w.states[1:], func(s state) bool { return s.known }) {
		return
	}
	cards := w.run.cards
	w.adopt(h, b)
	w.run.cards = cards
}

// adopt replaces what is known.
func (w *watch) adopt(h heard, b Backend) {
	now := time.Now()
	w.backend, w.modelsAt = b, now
	w.run = newRun(w.asker(b))
	w.run.found, w.run.model = h.Found, h.Card
	w.run.found.Missing, w.run.found.At, w.run.found.Engine = nil, h.at, b.Engine
	for _, m := range h.Found.Missing {
		if !m.Pending {
			w.run.missing[m.Name] = m.Reason
		}
	}
	w.asked, w.vain, w.due = 0, 0, now
	for i := range w.states {
		q := &questions[i]
		if w.states[i] = (state{known: true}); slices.Contains(h.Found.Open, q.name) {
			w.states[i] = state{open: "it was not answered yet", known: len(q.of) > 0 && !slices.ContainsFunc(q.of, h.Found.Pending)}
		}
	}
}
