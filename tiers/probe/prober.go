// Package probe finds out what an engine supports by asking it: scoring of a given text, exact continuation from token
// ids, tokenizer and chat template. It asks by the calls that requests make ([engine.Upstream]), so what it finds is what
// they get. The reported version is not used. Start at [New], [Prober.Run] and [Capabilities].
//
// A probe costs an engine at most about 300 prompt tokens and 75 generated ones. An engine is asked once: at the fleet's start,
// and after it has restarted or shows another model card. A probe that gets no answer goes on later at the same question. One
// replica asks, the others take over what it found out ([Prober.Tell], [Prober.Take]).
package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// Capabilities is the result of a probe of one of a pool's engines. It never changes after it was published. A nil
// Capabilities knows nothing.
type Capabilities struct {
	At      time.Time    `json:"-"` // of the last answer
	Backend string       // the probed backend
	Life    uint64       `json:"-"` // of that backend's engine
	Engine  dialect.Kind // by whose rules it was asked; "" is vLLM's
	Model   string

	Tokenizer string  // fingerprint of its ids for fixed texts; "" is unknown
	Template  string  // of its ids for fixed chats; "" is unknown
	EOS       []int32 // ids that end an answer
	Window    int     // context length in tokens; 0 is unknown

	Unscored bool // it answers without logprobs that can be believed, although they were requested
	TokenIDs bool // it returns generated ids: token_ids, or the id of each entry of logprobs
	Thinks   bool // it thinks before it answers, unless it is told not to ([dialect.Members].TemplateArgs)

	Continue dialect.Continue // what it answers that is asked to continue the text of a chat's answer

	Scoring openai.ScoreStyle   // how it scores a given text; "": not at all
	Missing []MissingCapability // what it lacks, sorted
}

// MissingCapability is something that an engine lacks, and the reason.
type MissingCapability struct{ Name, Reason string }

// The capabilities.
const (
	MissingTokenize  = "tokenize"         // /tokenize does not answer for texts or chats: a draft's text cannot be turned into ids
	MissingWords     = "detokenize"       // nor /detokenize: ids cannot be turned into text
	MissingIDs       = "token_ids"        // answers tell no ids
	MissingPromptIDs = "prompt_token_ids" // or no ids of the prompt: a draft's ids cannot be scored, nor gone on from
	MissingLogprobs  = "logprobs"         // generated tokens come without, or with untrue ones, or thoughts come first
	MissingJudge     = "judge"            // chats are refused, or thoughts come before an answer: nothing can be asked in words
	MissingScoring   = "scoring"          // no way to score a text
	MissingContinue  = "continuation"     // ids do not give the same answer as the chat
	MissingEOS       = "eos"              // no id was seen that ends an answer: the end of a draft's text is not scored
	MissingWindow    = "window"           // nothing tells the context length
)

// CapabilityNames are all capabilities: the values of the metric's label.
var CapabilityNames = []string{
	MissingTokenize, MissingWords, MissingIDs, MissingPromptIDs, MissingLogprobs, MissingJudge, MissingScoring, MissingContinue, MissingEOS,
	MissingWindow,
}

// MissingReason returns why a capability is missing; "" if it is there. For nil everything is missing.
func (c *Capabilities) MissingReason(what string) string {
	if c == nil {
		return "not probed yet"
	}
	for _, m := range c.Missing {
		if m.Name == what {
			return m.Reason
		}
	}
	return ""
}

// SameTokens reports whether two pools use the same token ids. known is false while the probes do not decide it.
func SameTokens(a, b *Capabilities) (same, known bool) {
	switch {
	case a == nil || b == nil || a.Tokenizer == "" || b.Tokenizer == "":
		return false, false
	case a.Tokenizer != b.Tokenizer:
		return false, true
	case a.Template == "" || b.Template == "":
		return false, false
	}
	return a.Template == b.Template, true
}

// Options wire a Prober.
type Options struct {
	Pools      []Pool                          // at the start; [Prober.SetPools] replaces them
	Upstream   engine.Upstream                 // asks, as it will for requests
	Mine       func(pool, backend string) bool // this replica asks a backend
	Ready      func() bool                     // what other replicas told was taken
	Logger     zerolog.Logger                  // one line per change of a card
	Registerer prometheus.Registerer           // nil registers nothing
}

// Pool is one to probe.
type Pool struct {
	Name, Model string
	// Backends are those that there are now. It is asked once a second.
	Backends    func() []Backend
	Credentials func() *credentials.Credentials // that it shows to its engines
	// Ended is told how each question ended.
	Ended func(backend string, err error)
	// Priority is what its engines are told where they schedule by priority: a late one. nil:
	// they do not, and refuse a request that has one.
	Priority *int64
	// MayScore reports by an error that a backend may not be asked to score so many tokens now, or how to tell what came of it.
	MayScore func(backend string, tokens int) (leave func(error), err error)
}

// probedAs reports whether what a probe tells of p holds for q, too.
func (p Pool) probedAs(q Pool) bool {
	same := p.Priority == nil && q.Priority == nil || p.Priority != nil && q.Priority != nil && *p.Priority == *q.Priority
	return p.Model == q.Model && same
}

// Backend is one of a pool's.
type Backend struct {
	ID, URL string
	Engine  dialect.Kind // "" is not known yet
	Up      bool
	Life    uint64 // another one than before: the engine was restarted
}

// like reports whether the engines of b and c are of the same kind.
func (b Backend) like(c Backend) bool { return dialect.Of(b.Engine) == dialect.Of(c.Engine) }

// pace is how often is asked.
type pace struct {
	silence            time.Duration // that an engine may keep to a question: busy ones let it wait
	look, models       time.Duration // at the backends, at the model's card
	minRetry, maxRetry time.Duration // after a round that left a question open: doubling
	told               time.Duration // after which what is known is told again
}

// defaultPace is that of a Prober.
var defaultPace = pace{
	silence: 2 * time.Minute, look: time.Second, models: 15 * time.Second, minRetry: time.Second, maxRetry: time.Minute, told: 20 * time.Second,
}

// Prober keeps a card of each pool. It is safe for concurrent use.
type Prober struct {
	Options
	pace    pace
	watched atomic.Pointer[map[string]*watch] // by pool; never changed, only replaced
	changed chan struct{}                     // SetPools was called
}

// New returns a Prober that asks nothing before Run.
func New(o Options) (*Prober, error) {
	p := &Prober{Options: o, pace: defaultPace, changed: make(chan struct{}, 1)}
	p.watched.Store(&map[string]*watch{})
	p.SetPools(o.Pools)
	if o.Registerer != nil {
		if err := o.Registerer.Register(collector{p}); err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
	}
	return p, nil
}

// SetPools replaces the pools that are probed, whose names differ. What is known of a pool stays known while its model and its
// priority stay the same; its other fields must then mean the same pool as before. Only one SetPools may run at a time.
func (p *Prober) SetPools(pools []Pool) {
	was, next := *p.watched.Load(), make(map[string]*watch, len(pools))
	for _, pool := range pools {
		if next[pool.Name] = was[pool.Name]; next[pool.Name] == nil || !was[pool.Name].pool.probedAs(pool) {
			next[pool.Name] = &watch{prober: p, pool: pool}
		}
	}
	p.watched.Store(&next)
	select {
	case p.changed <- struct{}{}:
	default: // Run has not looked yet
	}
}

// watches returns the watches of the pools now.
func (p *Prober) watches() map[string]*watch { return *p.watched.Load() }

// Run probes until ctx ends. Each pool has a goroutine of its own, so that one whose
// engines hang holds up no other.
func (p *Prober) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ends := map[*watch]func(){}
	for {
		now := p.watches()
		for w, end := range ends {
			if now[w.pool.Name] != w {
				end()
				delete(ends, w)
			}
		}
		for _, w := range now {
			if ends[w] == nil {
				during, end := context.WithCancel(ctx)
				ends[w] = end
				all.Go(func() { panics.KeepRunning(during, w.loop) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
	}
}

// Capabilities returns what is known of a pool's engines. nil: not all yet, nothing of the life that the engine is in now, or there
// is no such pool; [Prober.Progress] says which. It takes no lock.
func (p *Prober) Capabilities(pool string) *Capabilities {
	w := p.watches()[pool]
	if w == nil {
		return nil
	}
	return w.capabilities.Load()
}

// Progress returns how far the probe of a pool's engines is.
func (p *Prober) Progress(pool string) Progress {
	if w := p.watches()[pool]; w != nil {
		if progress := w.progress.Load(); progress != nil {
			return *progress
		}
	}
	return Progress{}
}

// collector shows the cards as they are when they are asked for: labels are the pools of
// the configuration and closed sets.
type collector struct{ *Prober }

var (
	missingDesc = prometheus.NewDesc("foregate_probe_missing",
		"1 where the pool's engines lack it, or were not probed yet; 0 where they have it.", []string{"pool", "capability"}, nil)
	ageDesc = prometheus.NewDesc("foregate_probe_age_seconds",
		"Time since the pool's engines were last probed with success; absent before.", []string{"pool"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- missingDesc
	ch <- ageDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for name, w := range c.watches() {
		capabilities := w.capabilities.Load()
		for _, what := range CapabilityNames {
			missing := 0.0
			if capabilities.MissingReason(what) != "" {
				missing = 1
			}
			ch <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, missing, name, what)
		}
		if capabilities != nil {
			ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, time.Since(capabilities.At).Seconds(), name)
		}
	}
}

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
