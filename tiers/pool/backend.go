package pool

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// backend is one vLLM server. All but its names is guarded by Pool.mu.
type backend struct {
	id, url string
	metrics backendMetrics

	down   error // why it is down; nil is up
	downAt time.Time
	blind  bool // it was logged that there are no readings

	reading pressure.Reading
	rates   rates

	// What we have under way there. Leases remember the number of the scrape
	// that was begun last before them; those of a scrape older than the reading's
	// are in the reading. So the rest need not be listed, only summed.
	all    tally  // every lease
	before tally  // of all: not in the reading, begun before the last scrape
	after  tally  // of all: begun after the last scrape was sent
	scrape uint64 // the number of the last scrape that was begun
	read   uint64 // the number of the scrape that gave the reading

	prefillSince time.Time // when the prefill that is under way among them began, as far as we know
}

// tally sums leases.
type tally struct {
	requests int
	queued   int // prompt tokens whose prefill has not finished
	held     int // prompt tokens: what fills the cache soon after the start
	tokens   int // prompt tokens and half of the expected output: what fills it on average
}

func (t *tally) add(o tally) {
	t.requests += o.requests
	t.queued += o.queued
	t.held += o.held
	t.tokens += o.tokens
}

func (t *tally) sub(o tally) {
	t.requests -= o.requests
	t.queued -= o.queued
	t.held -= o.held
	t.tokens -= o.tokens
}

// start counts a lease in.
func (b *backend) start(t tally, now time.Time) {
	if b.all.queued == 0 {
		b.prefillSince = now
	}
	b.all.add(t)
	b.after.add(t)
}

// end counts a part of a lease out that began after the given scrape.
func (b *backend) end(t tally, scrape uint64) {
	b.all.sub(t)
	switch {
	case scrape == b.scrape:
		b.after.sub(t)
	case scrape >= b.read:
		b.before.sub(t)
	}
}

// beginScrape notes that a scrape is about to be sent.
func (b *backend) beginScrape() {
	b.scrape++
	b.before.add(b.after)
	b.after = tally{}
}

// take stores the reading of the last scrape that was begun.
func (b *backend) take(r pressure.Reading) {
	b.reading = r
	b.read = b.scrape
	b.before = tally{}
}

// mean is what the pool's backends with a fresh reading have in common; it
// stands in where a reading is old or missing.
type mean struct {
	usage, waiting, running float64
	known                   bool
	prompt                  float64 // of the requests that were picked for
	rates                   rates   // of all backends
}

// fastest is how much of the pool's mean time per token a backend may be believed to
// need at least, and slowest at most. A pool is one model on one kind of hardware:
// who seems faster found the prompt in its prefix cache, and would draw every other
// prompt too; who seems slower was measured behind a queue that nobody saw, and would
// never be asked again.
const fastest, slowest = 0.8, 1.5

// limit bounds what a backend has learned by what all have.
func (m *mean) limit(r rates) rates {
	return rates{
		prefill: clamp(r.prefill, fastest*m.rates.prefill, slowest*m.rates.prefill),
		decode:  clamp(r.decode, fastest*m.rates.decode, slowest*m.rates.decode),
	}
}

// unknownUsage stands in for the pool's mean where no backend has a reading:
// neither idle nor full.
const unknownUsage = 0.5

// meanOf averages over the backends that are up and freshly read.
func meanOf(set []*backend, now time.Time, c pressure.Config) mean {
	var m mean
	for _, b := range set {
		m.rates.prefill += b.rates.prefill
		m.rates.decode += b.rates.decode
	}
	all := float64(max(len(set), 1))
	m.rates.prefill, m.rates.decode = m.rates.prefill/all, m.rates.decode/all
	n := 0.0
	for _, b := range set {
		if w, _ := pressure.Weight(b.reading.At, now, c); b.down != nil || w < 1 {
			continue
		}
		n++
		m.usage += b.reading.KVUsage
		m.waiting += float64(b.reading.Waiting)
		m.running += float64(b.reading.Running)
	}
	if n == 0 {
		m.usage = unknownUsage
		return m
	}
	m.usage, m.waiting, m.running, m.known = m.usage/n, m.waiting/n, m.running/n, true
	return m
}

// candidate fills in what Choose is to know of b.
func (b *backend) candidate(c *Candidate, m mean, now time.Time, cfg pressure.Config) {
	c.Down = b.down != nil
	c.Capacity, c.BlockSize = b.reading.Capacity(), b.reading.BlockSize
	c.MeanPrompt = m.prompt
	r := m.limit(b.rates)
	c.PrefillRate, c.DecodeRate = 1/r.prefill, 1/r.decode

	weight, known := pressure.Weight(b.reading.At, now, cfg)
	if !known {
		// Our own requests are all we know. The mean stands in for what others
		// may have sent; it includes ours, so only what exceeds it is added.
		c.Usage, c.Waiting, c.Running = m.usage, m.waiting, m.running
		c.OwnRequests = max(float64(b.all.requests)-m.waiting-m.running, 0)
		c.OwnQueued = max(float64(b.all.queued)-m.waiting*m.prompt, 0)
		return
	}
	if !m.known {
		weight = 1 // nothing to move toward
	}
	c.Usage = b.reading.KVUsage*weight + m.usage*(1-weight)
	c.Waiting = float64(b.reading.Waiting)*weight + m.waiting*(1-weight)
	c.Running = float64(b.reading.Running)*weight + m.running*(1-weight)
	c.OwnRequests = float64(b.before.requests + b.after.requests)
	c.OwnQueued = float64(b.before.queued + b.after.queued)
	c.OwnHeld = float64(b.before.held + b.after.held)
	done := now.Sub(b.prefillSince).Seconds() * c.PrefillRate
	c.OwnPrefill = max(float64(b.all.queued)-done, 0)
}

// checkURL returns a base URL in its one spelling: lower case, no default port,
// no trailing slash.
func checkURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("not a URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme is %q, not http or https", u.Scheme)
	case u.Hostname() == "":
		return "", errors.New("no host")
	case u.User != nil:
		return "", errors.New("has a user name or password")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("has a query")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return "", errors.New("has a fragment")
	}
	u.Host = strings.ToLower(u.Host)
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u.Host = strings.TrimSuffix(strings.TrimSuffix(u.Host, port), ":")
	return strings.TrimRight(u.String(), "/"), nil
}

// maxID is the longest id; the ids are parts of Redis keys and of metrics.
const maxID = 64

// idOf makes an id of a URL's host and port. Where that is taken or too long,
// a hash of the URL tells them apart.
func idOf(base string, taken func(string) bool) string {
	host := base
	if u, err := url.Parse(base); err == nil {
		host = u.Host
	}
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			return '-'
		}
	}, host)
	if len(id) <= maxID && !taken(id) {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(base)) // a hash takes everything
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return id[:min(len(id), maxID-len(suffix))] + suffix
}
