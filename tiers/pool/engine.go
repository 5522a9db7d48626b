package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
)

// Engine returns the kind of the pool's engines, as configured or by the first backend that told it; "" is not known.
func (p *Pool) Engine() (kind dialect.Kind) {
	if kind = p.o.configuredEngine(); kind != "" {
		return kind
	}
	p.locked(func() {
		for _, b := range *p.set.Load() {
			if kind = b.identity.kind; kind != "" {
				return
			}
		}
	})
	return kind
}

// Tokenizes reports whether the kind of the pool's engines tells the tokens of a prompt; a kind that is not known yet may.
func (p *Pool) Tokenizes() bool { return dialect.Of(p.Engine()).Tokenize != dialect.TokenizeNone }

// dialectOf returns the dialect of b's engine.
func (p *Pool) dialectOf(b *backend) *dialect.Dialect {
	var kind dialect.Kind
	p.locked(func() { kind = b.identity.kind })
	return dialect.Of(kind)
}

// identify asks b what kind of engine it is, if that is due.
func (p *Pool) identify(ctx context.Context, b *backend) {
	now, due, life := p.o.Now(), false, uint64(0)
	p.locked(func() {
		life = b.life
		due = (b.down == nil || b.identity.doubted) && b.identity.isDue(p.o.configuredEngine(), life, now)
	})
	if !due {
		return
	}
	shown := p.Credentials()
	found, err := p.scraper.Identify(ctx, b.url)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		ended := p.o.Now()
		p.locked(func() { b.identity.failed(ended) })
		if credentials.RefusalOf(err) != nil {
			p.noteCredentials(b, ForScrapes, shown, err)
		}
		return
	}
	p.identified(b, found, life)
}

// identified stores what b's answers told, and logs what is new.
func (p *Pool) identified(b *backend, found dialect.Finding, life uint64) {
	now := p.o.Now()
	var was, is dialect.Kind
	var before, problem string
	p.locked(func() {
		was, before = b.identity.kind, p.engineProblem(b)
		b.identity.answered(found, p.o.configuredEngine(), life, now)
		is, problem = b.identity.kind, p.engineProblem(b)
	})
	switch {
	case problem != "" && problem != before:
		p.log.Error().Str("backend", b.id).Msg(problem)
	case was != is:
		p.log.Info().Str("backend", b.id).Str("engine", string(is)).Str("by", found.By).Msg("found the kind of an engine")
	}
}

// engineProblem returns how b's engine contradicts the configuration or the rest of the pool; "" if it does not. The
// caller holds mu.
func (p *Pool) engineProblem(b *backend) string {
	if set, found := p.o.configuredEngine(), b.identity.found; set != "" && found.Kind != "" && found.Kind != set {
		return fmt.Sprintf("pools.%s.engine is %s, but it answers as %s: %s", p.o.Name, set, found.Kind, found.By)
	}
	own := b.identity.kind
	for _, other := range *p.set.Load() {
		if kind := other.identity.kind; other.cache.Index < b.cache.Index && own != "" && kind != "" && kind != own {
			return fmt.Sprintf("it is %s, but %s of the same pool is %s: make a pool for each kind of engine", own, other.id, kind)
		}
	}
	return ""
}

// identity is what is known of the kind of a backend's engine.
type identity struct {
	kind  dialect.Kind    // in force: as configured, or else as it answered; "" is not known yet
	found dialect.Finding // what its answers told

	asked   bool   // it has answered
	life    uint64 // in which it did
	doubted bool   // since then it was down, and answers otherwise than its kind
	fails   int    // questions in a row that could not be asked
	next    time.Time

	unmeasured time.Time // when it last had no /metrics, though a flag could turn them on; zero: it has them
	checked    time.Time // when an outsider's connections were last tried
}

// The pauses after questions that could not be asked: doubling.
const (
	minIdentifyPause = time.Second
	maxIdentifyPause = time.Minute
)

// isDue reports whether the engine must be asked for its kind: once in each of its lives, and while it is down only if
// there is a doubt. One that is configured as an outsider is asked nothing.
func (i *identity) isDue(configured dialect.Kind, life uint64, now time.Time) bool {
	return configured != dialect.OpenAI && (!i.asked || i.life != life || i.doubted) && !now.Before(i.next)
}

// doubt notes that a backend that is down answers, but has no health where its kind has it: another kind of engine may
// have come.
func (i *identity) doubt(now time.Time) {
	if !i.doubted && i.fails > 0 {
		i.fails, i.next = 0, now
	}
	i.doubted = true
}

// isUnasked reports whether the kind is not known because the engine was not asked yet.
func (i *identity) isUnasked() bool { return i.kind == "" && !i.asked && i.fails == 0 }

// failed notes that the engine could not be asked.
func (i *identity) failed(now time.Time) {
	i.fails++
	i.next = now.Add(min(minIdentifyPause<<min(i.fails-1, 10), maxIdentifyPause))
}

// answered notes what the engine's answers told. A configured kind stays in force. So does the last kind that was found,
// if nothing is now. A doubt that they did not confirm is not looked into again at once.
func (i *identity) answered(f dialect.Finding, configured dialect.Kind, life uint64, now time.Time) {
	next := time.Time{}
	if i.doubted && (f.Kind == "" || f.Kind == i.kind) {
		next = now.Add(maxIdentifyPause)
	}
	i.found, i.asked, i.life, i.doubted, i.fails, i.next = f, true, life, false, 0, next
	if configured == "" && f.Kind != "" {
		i.kind = f.Kind
	}
}

const (
	// remeasureAfter is the time after which /metrics that were not there are asked for again.
	remeasureAfter = 30 * time.Second
	// checkOutsider is the shortest time between two connections to an outsider that was down.
	checkOutsider = 5 * time.Second
)

// readsMetrics reports whether the engine's load is read now.
func (i *identity) readsMetrics(now time.Time) bool {
	return dialect.Of(i.kind).Load.Reads() && (i.unmeasured.IsZero() || now.Sub(i.unmeasured) >= remeasureAfter)
}

// tellsLoad reports whether readings are due: the engine's kind has /metrics, and they were there when last asked for.
func (i *identity) tellsLoad() bool { return dialect.Of(i.kind).Load.Reads() && i.unmeasured.IsZero() }

// hint says how the engine could tell its load; "" if it does, or never can.
func (i *identity) hint() string {
	if i.unmeasured.IsZero() {
		return ""
	}
	return "its load is not known: start it with " + dialect.Of(i.kind).Load.Flag
}
