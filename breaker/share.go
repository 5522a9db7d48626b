package breaker

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Topic names what replicas tell each other, and the version of the texts.
const Topic = "breakers:1"

const (
	maxText  = 2000          // bytes of a text
	maxCount = 1_000_000_000 // more is no count
	maxAgo   = 600_000       // ms: a change that is further off is nonsense
)

// report is what a replica tells of a backend. Successes are 0 from its own opening to its closing: a backend that worked
// until now has more successes than faults on every replica, and would be open only locally on each of them.
type report struct {
	Name      string `json:"b"`           // pool/backend
	Successes int    `json:"s,omitempty"` // of the window
	Faults    int    `json:"f,omitempty"`
	Turn      int    `json:"n,omitempty"` // openings in a row; -1: the gate was closed; 0: nothing is known
	Ago       int64  `json:"a,omitempty"` // ms since it opened or closed; below 0 where changes came too close
	Left      int64  `json:"l,omitempty"` // ms of its open time
	Cut       bool   `json:"c,omitempty"` // the backend could not be reached

	replica string    // who told it
	at      time.Time // when
	rank    int       // the highest come first, if there is no room for all
}

// valid reports whether all values are in range.
func (r *report) valid() bool {
	return min(r.Successes, r.Faults, r.Turn+1) >= 0 && max(r.Successes, r.Faults, r.Turn) <= maxCount &&
		max(r.Ago, -r.Ago) <= maxAgo && r.Left >= 0 && ms(r.Left) <= 2*maxFleetOpen
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// report is what is to be told of a backend now.
func (e *entry) report(now time.Time) report {
	r := report{Name: e.Pool + "/" + e.Backend, Cut: e.cut}
	if r.Successes, r.Faults = e.local.Counts(now); e.open {
		r.Successes, r.Faults = 0, 0
		if now.Sub(e.since) < window {
			r.Faults = e.faults
		}
	}
	r.rank, _, _ = e.judge(now) // others' faults, too: who sees them needs to know of successes
	if since := now.Sub(e.changed); since < window || e.open && e.fleet {
		r.Turn, r.Ago, r.rank = -1, since.Milliseconds(), maxCount
		if e.open && e.fleet {
			r.Turn, r.Left = e.turn, max(e.until.Sub(now), 0).Milliseconds()
		}
	}
	return r
}

// Tell returns what this replica has to tell the others, as one short text. It is called before each exchange, and
// opens breakers of which replicas have told enough.
func (s *Set) Tell() map[string]string {
	var all []report
	for _, e := range s.inOrder() {
		now, r := s.o.World.Now(), report{}
		s.change(e, now, func() {
			if _, cut, opens := e.judge(now); opens {
				e.move(true, true, cut, now)
			}
			e.news, r = false, e.report(now)
		})
		if r.Turn != 0 || !e.view.Load().until.IsZero() || r.Faults+r.Successes > 0 {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b report) int {
		return cmp.Or(b.rank-a.rank, b.Faults-a.Faults, b.Successes-a.Successes, cmp.Compare(a.Name, b.Name))
	})
	var text []byte
	for i := range all {
		if one, err := json.Marshal(&all[i]); err == nil && len(text)+len(one)+2 <= maxText {
			text = append(append(text, ','), one...)
		}
	}
	return map[string]string{s.o.Replica: "[" + string(text[min(len(text), 1):]) + "]"}
}

// Take takes over what a replica told so long ago; this one's own text, too, which says that replicas hear each other.
func (s *Set) Take(replica, text string, age time.Duration) {
	var all []report
	if err := json.Unmarshal([]byte(text), &all); age > window || err != nil {
		return // fields may be of any shape
	}
	for i := range all {
		r, now := &all[i], s.o.World.Now()
		pool, backend, _ := strings.Cut(r.Name, "/")
		e := (*s.entries.Load())[Key{pool, backend}]
		if e == nil || !r.valid() {
			continue
		}
		r.replica, r.at = replica, now.Add(-max(age, 0))
		opens := false
		s.change(e, now, func() { e.take(r); _, _, opens = e.judge(now) })
		if opens {
			s.o.Wake() // for Tell, which opens it: before that the texts of all replicas are taken
		}
	}
}
