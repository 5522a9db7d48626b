package pool

import (
	"context"
	"fmt"

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

// WritesNulls reports whether answers of the pool's engines have members without a value, as null.
func (p *Pool) WritesNulls() bool { return p != nil && dialect.Of(p.Engine()).Members.Nulls }

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
		b.identity.answered(answer{found, life, now}, p.o.configuredEngine())
		is, problem = b.identity.kind, p.engineProblem(b)
	})
	p.metrics.misfit(p.o.Name, b.id, problem != "")
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
	if c := b.identity.contradiction(p.o.Name, p.o.configuredEngine()); c != "" {
		return c
	}
	own := b.identity.kind
	for _, other := range *p.set.Load() {
		if kind := other.identity.kind; other.at < b.at && own != "" && kind != "" && kind != own {
			return fmt.Sprintf("it is %s, but %s of the same pool is %s: make a pool for each kind of engine", own, other.id, kind)
		}
	}
	return ""
}
