package loadtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// draft lays the draft pool of the file over a case's; none takes it away.
func (r *reading) draft(p spot, c *Case) {
	if !p.given() {
		return
	}
	if p.node.Kind == yaml.ScalarNode {
		if p.node.Value != "none" {
			p.fail("want fields (name: value) or none, got %s", kindOf(p.node))
		}
		c.Draft = nil
		return
	}
	pool := freshPool("draft")
	if c.Draft != nil {
		pool = *c.Draft
	}
	p.pool(&pool)
	c.Draft = &pool
}

// target lays the target pool of the file over a case's.
func (r *reading) target(p spot, c *Case) {
	if c.Target.Model == "" {
		c.Target = freshPool("target")
	}
	p.pool(&c.Target)
}

func freshPool(model string) Pool {
	return Pool{Model: model, Count: 1, Policy: "fcfs", Metrics: "v1", Restart: time.Minute}
}

// pool lays the fields that are given over to.
func (p spot) pool(to *Pool) {
	if !p.given() {
		return
	}
	b := p.fields()
	b.at("profile").id(&to.Profile)
	if b.entries != nil && to.Profile == "" && !b.entries["profile"].given() {
		b.note(b.line, join(b.path, "profile"), "missing; want a profile of the simulator, such as a10g-8b")
	}
	b.at("count").whole(&to.Count, 1, maxBackends)
	b.at("usd_per_hour").number(&to.USDPerHour, 0, 1e5)
	b.at("model").id(&to.Model)
	b.at("divergence").number(&to.Divergence, 0, 1)
	b.at("blind").number(&to.Blind, 0, 1)
	b.at("blocks").whole(&to.Blocks, 0, 1<<20)
	b.at("max_seqs").whole(&to.MaxSeqs, 0, 1<<16)
	b.at("max_batched_tokens").whole(&to.MaxBatchedTokens, 0, 1<<20)
	b.at("reuse").truth(&to.Reuse)
	b.at("policy").choice(&to.Policy, "fcfs", "priority")
	b.at("metrics").choice(&to.Metrics, "v1", "v0")
	b.at("oom").truth(&to.OOM)
	b.at("restart").span(&to.Restart, time.Second)
	b.done()
}

// fault reads what goes wrong, and checks it against every case.
func (r *reading) fault(_ int, p spot) {
	b := p.fields()
	if b.entries == nil {
		return
	}
	var f Fault
	at := b.need("at", "a duration from the start")
	at.span(&f.At, 0)
	if at.given() && r.s.Duration > 0 && f.At >= r.s.Duration {
		at.fail("is after the last arrival; want less than the duration, %s", tidy(r.s.Duration))
	}
	b.at("for").span(&f.For, 0)
	pool := b.need("pool", "draft or target")
	pool.choice(&f.Pool, "draft", "target")
	backend := b.need("backend", "a number from 0, or all")
	backend.backend(&f.Backend)
	if b.at("drift").given() {
		r.drifts(f, pool, backend)
	} else {
		r.exists(f, pool, backend)
	}

	kind, ok := b.one("die", "slow", "status", "hang", "metrics", "kv_usage", "drift")
	rate := b.at("rate")
	rate.number(&f.Rate, 0, 1)
	if ok && kind != "status" && rate.given() {
		rate.fail("belongs to status alone; remove it")
	}
	if ok {
		b.entries[kind].wrong(kind, &f)
	}
	b.done()
	r.s.Faults = append(r.s.Faults, f)
}

// wrong reads the one thing that goes wrong.
func (p spot) wrong(kind string, f *Fault) {
	switch kind {
	case "die":
		if p.truth(&f.Die); !f.Die && p.node.ShortTag() == "!!bool" {
			p.fail("says that nothing happens; want true")
		}
	case "slow":
		p.number(&f.Slow, 1, 1000)
	case "status":
		p.whole(&f.Status, 400, 599)
	case "hang":
		p.choice(&f.Hang, "headers", "stream")
	case "metrics":
		p.choice(&f.Metrics, "garbage", "missing", "frozen", "nan")
	case "kv_usage":
		p.number(&f.KVUsage, 0.001, 1)
	case "drift":
		f.Drift = &Drift{}
		b := p.fields()
		b.need("divergence", "a number of 0 … 1, of the language from the target's").number(&f.Drift.Divergence, 0, 1)
		b.at("blind").number(&f.Drift.Blind, 0, 1)
		b.done()
	}
}

// backend is a number from 0, or all.
func (p spot) backend(to *int) {
	v, ok := p.scalar("a number from 0, or all", "!!int", "!!str")
	if !ok {
		return
	}
	if v == "all" {
		*to = -1
		return
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n >= maxBackends {
		p.fail("want a number of 0 … %d, or all", maxBackends-1)
		return
	}
	*to = n
}

// exists notes a fault of a backend that a case does not have.
func (r *reading) exists(f Fault, pool, backend spot) {
	for _, c := range r.s.Cases {
		in := ""
		if len(r.s.Cases) > 1 {
			in = fmt.Sprintf(" in case %q", c.Name)
		}
		switch n := c.backends(f.Pool); {
		case !pool.given() || !backend.given() || f.Pool == "":
		case n == 0:
			pool.fail("there is no %s pool%s; want a pool that every case has", f.Pool, in)
			return
		case f.Backend >= n:
			backend.fail("the %s pool has %d backends%s; want 0 … %d, or all", f.Pool, n, in, n-1)
			return
		}
	}
}

// drifts notes a drift of something else than a draft pool as a whole. Cases without one have no
// use for it.
func (r *reading) drifts(f Fault, pool, backend spot) {
	switch {
	case !pool.given() || !backend.given() || f.Pool == "":
	case f.Pool != "draft" || f.Backend >= 0:
		pool.fail("a drift is of the draft pool and of all its backends; want pool: draft, backend: all")
	case !slices.ContainsFunc(r.s.Cases, func(c Case) bool { return c.Draft != nil }):
		pool.fail("there is no draft pool in any case")
	}
}

// backends counts those of a pool.
func (c *Case) backends(pool string) int {
	switch {
	case pool == "target":
		return c.Target.Count
	case pool == "draft" && c.Draft != nil:
		return c.Draft.Count
	}
	return 0
}
