package soak

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
)

// Counts are what became of requests. Sent is the sum of the others, but for what they say of answers.
type Counts struct {
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	Shed     int `json:"shed"`    // 503 with X-Shed-Reason
	Limited  int `json:"limited"` // 429
	Left     int `json:"left"`    // the client hung up
	Failed   int `json:"failed"`  // an error with a code
	Broken   int `json:"broken"`  // anything else

	Compared int            `json:"compared"`          // answers that were compared with what the engine says
	Overrun  int            `json:"overrun"`           // of these, those with a few words more than max_tokens allow
	Reasons  map[string]int `json:"reasons,omitempty"` // of failures and of what is broken
}

// add takes up other counts.
func (c *Counts) add(o Counts) {
	c.Sent, c.Answered, c.Shed, c.Limited = c.Sent+o.Sent, c.Answered+o.Answered, c.Shed+o.Shed, c.Limited+o.Limited
	c.Left, c.Failed, c.Broken = c.Left+o.Left, c.Failed+o.Failed, c.Broken+o.Broken
	c.Compared, c.Overrun = c.Compared+o.Compared, c.Overrun+o.Overrun
	for reason, n := range o.Reasons {
		c.reason(reason, n)
	}
}

func (c *Counts) reason(name string, n int) {
	if c.Reasons == nil {
		c.Reasons = map[string]int{}
	}
	c.Reasons[name] += n
}

// accounted reports whether each request is something.
func (c *Counts) accounted() bool {
	return c.Sent == c.Answered+c.Shed+c.Limited+c.Left+c.Failed+c.Broken
}

// truths are what the engines of each pool say.
type truths map[string]map[chaos.Question]chaos.EngineAnswer

// verdict of an answer.
type verdict int

const (
	unknown verdict = iota // nobody knows what it should be
	equal
	overrun // equal, and a few words more
	other
)

// maxOverrun is how many words an answer may have beyond max_tokens: the tokens of a lost backend that could not be
// counted (docs/concepts.md, Design decisions).
const maxOverrun = 8

// compare compares an answer with what the engine says that gave it: the target where it was asked for, and the pool
// that an answer in one piece names. A stream names the pool of its first byte only.
func (t truths) compare(o *chaos.Outcome) verdict {
	pool := o.Tier
	if pool == "" && !o.Stream {
		pool = o.Header.Get("X-Tier")
	}
	all, known := t[pool]
	if !known {
		return unknown
	}
	want, known := all[chaos.Question{Prompt: o.Prompt, MaxTokens: o.MaxTokens}]
	switch more, prefix := strings.CutPrefix(o.Text, want.Text); {
	case !known:
		return unknown
	case prefix && more == "":
		return equal
	case prefix && len(strings.Fields(more)) <= maxOverrun:
		return overrun
	}
	return other
}

// code is the code of an error's body, or of the error in a stream; "" is none.
func code(text string) string {
	var e struct {
		Code  string
		Error struct{ Code string }
	}
	if json.Unmarshal([]byte(text), &e) != nil {
		return ""
	}
	return cmp.Or(e.Error.Code, e.Code)
}

// count takes up one outcome, and reports whether the client has a whole answer.
func (c *Counts) count(o *chaos.Outcome, v verdict) (answered bool) {
	c.Sent++
	name := code(o.Detail)
	switch {
	case o.Kind == chaos.Answered && v == other:
		c.Broken++
		c.reason("another text", 1)
	case o.Kind == chaos.Answered:
		c.Answered++
		if v != unknown {
			c.Compared++
		}
		if v == overrun {
			c.Overrun++
		}
		return true
	case o.Kind == chaos.Shed && name != "":
		c.Shed++
	case o.Kind == chaos.Limited && name != "":
		c.Limited++
	case o.Kind == chaos.Left:
		c.Left++
	case name != "" && (o.Kind == chaos.ErrorEvent || strings.HasPrefix(o.Kind, "http_")):
		c.Failed++
		c.reason(strings.TrimPrefix(o.Kind, "http_")+" "+name, 1)
	default:
		c.Broken++
		c.reason(o.Kind, 1)
	}
	return false
}

// period is a part of the run: a fault until everything is as before, or what is between two faults.
type period struct {
	fault      string // "" is none
	begin, end time.Time
	counts     Counts
	firsts     []float64 // ms to the first token of streams that were answered
}

// ledger counts requests by period. It is safe for concurrent use.
type ledger struct {
	truths truths

	mu        sync.Mutex
	periods   []*period
	byReplica map[int]*Counts
	samples   []string // of what failed or is broken
}

const (
	maxSamples = 40
	maxDetail  = 200 // bytes
)

// enter begins a period; a fault's name, or "" for none.
func (l *ledger) enter(fault string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.periods); n > 0 {
		l.periods[n-1].end = now
	}
	l.periods = append(l.periods, &period{fault: fault, begin: now})
}

// take counts an outcome that is over now.
func (l *ledger) take(o *chaos.Outcome) {
	v := l.truths.compare(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(o.At)
	if p.counts.count(o, v) && o.Stream {
		p.firsts = append(p.firsts, milliseconds(o.First))
	}
	if l.byReplica[o.Gateway] == nil {
		l.byReplica[o.Gateway] = &Counts{}
	}
	l.byReplica[o.Gateway].count(o, v)
	well := o.Kind == chaos.Answered && v != other || slices.Contains([]string{chaos.Shed, chaos.Limited, chaos.Left}, o.Kind)
	if !well && len(l.samples) < maxSamples {
		l.samples = append(l.samples, fmt.Sprintf("%s (%q, replica %d, after %v, %s%s): %.*s", o.Kind, p.fault, o.Gateway, o.Total.Round(time.Millisecond),
			map[bool]string{true: "stream of ", false: ""}[o.Stream], cmp.Or(string(o.API), "chat"), maxDetail, cmp.Or(o.Detail, "…"+o.Text)))
	}
}

// at is the period of a request that was sent at a time and is over now: the last fault that it overlaps, else the
// period in which it was sent.
func (l *ledger) at(sent time.Time) *period {
	for i := len(l.periods) - 1; ; i-- {
		p := l.periods[i]
		if p.fault != "" || i == 0 || !p.begin.After(sent) {
			return p
		}
	}
}

// total adds up all periods.
func (l *ledger) total() (sum Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.periods {
		sum.add(p.counts)
	}
	return sum
}

// milliseconds is a duration in ms.
func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e4) / 100 }

// percentile of values in any order; 0 of none.
func percentile(all []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
