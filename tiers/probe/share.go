package probe

import (
	"encoding/json"
	"slices"
	"time"
)

// Topic names what replicas tell each other. It changes with the questions and with the shape of a record.
const Topic = "probe:4"

const (
	// maxRecord bounds a record, in bytes; reasons are cut to fit.
	maxRecord = 1900
	maxReason = 100 // bytes of a reason in a record

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

// Tell returns what this replica has found out, by pool: what is new, and now and then all.
func (p *Prober) Tell() map[string]string {
	out := map[string]string{}
	for name, w := range p.watches() {
		w.mu.Lock()
		if now := time.Now(); w.told != "" && now.Sub(w.toldAt) >= p.pace.told {
			out[name], w.toldAt = w.told, now
		}
		w.mu.Unlock()
	}
	return out
}

// Take takes what a replica, perhaps this one, has told of a pool some time ago. What is no record is ignored.
func (p *Prober) Take(pool, text string, age time.Duration) {
	w, r := p.watches()[pool], &record{}
	if w == nil || len(text) > maxRecord || json.Unmarshal([]byte(text), r) != nil || r.Found.Model != w.pool.Model {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = heard{r, time.Now().Add(-age)}
}

// takeOver takes over what was told of the engine whose card this replica has read.
func (w *watch) takeOver() {
	w.mu.Lock()
	h := w.heard
	w.mu.Unlock()
	if h.record == nil || h.record == w.taken || h.Card != w.run.card || h.Card.Start == "" && h.at.Before(w.after) {
		return
	}
	w.run.found, w.run.missing = h.Found, map[string]string{}
	for _, m := range h.Found.Missing {
		w.run.missing[m.Name] = m.Reason
	}
	w.run.found.At, w.run.found.Engine = h.at, w.backend.Engine
	w.run.known, w.taken = len(questions), h.record
	w.publish()
}
