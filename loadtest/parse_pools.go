package loadtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/internal/yamlfile"
)

// draft lays the draft pool of the file over a case's; none takes it away.
func (r *reading) draft(p yamlfile.Value, c *Case) {
	if !p.IsSet() {
		return
	}
	if p.IsScalar() {
		if word, _ := p.Scalar("none"); word != "none" {
			p.Fail("want fields (name: value) or none")
		}
		c.Draft = nil
		return
	}
	pool := freshPool("draft")
	if c.Draft != nil {
		pool = *c.Draft
	}
	readPool(p, &pool)
	c.Draft = &pool
}

// target lays the target pool of the file over a case's.
func (r *reading) target(p yamlfile.Value, c *Case) {
	if c.Target.Model == "" {
		c.Target = freshPool("target")
	}
	readPool(p, &c.Target)
}

func freshPool(model string) Pool {
	return Pool{Model: model, Count: 1, Policy: "fcfs", Restart: time.Minute}
}

// readPool lays the fields that are given over to.
func readPool(p yamlfile.Value, to *Pool) {
	if !p.IsSet() {
		return
	}
	b := p.Fields()
	profile := b.At("profile")
	readID(profile, &to.Profile)
	if b.Opened() && to.Profile == "" && !profile.IsSet() {
		profile.Fail("missing; want a profile of the simulator, such as a10g-8b")
	}
	b.At("count").Whole(&to.Count, 1, maxBackends)
	b.At("usd_per_hour").Number(&to.USDPerHour, 0, 1e5)
	readID(b.At("model"), &to.Model)
	b.At("divergence").Number(&to.Divergence, 0, 1)
	b.At("blind").Number(&to.Blind, 0, 1)
	b.At("blocks").Whole(&to.Blocks, 0, 1<<20)
	b.At("max_seqs").Whole(&to.MaxSeqs, 0, 1<<16)
	b.At("max_batched_tokens").Whole(&to.MaxBatchedTokens, 0, 1<<20)
	b.At("policy").Choice(&to.Policy, "fcfs", "priority")
	b.At("oom").Bool(&to.OOM)
	b.At("restart").Duration(&to.Restart, time.Second, maxDuration)
	b.Done()
}

// fault reads what goes wrong, and checks it against every case.
func (r *reading) fault(p yamlfile.Value) {
	b := p.Fields()
	if !b.Opened() {
		return
	}
	var f Fault
	r.span(b, &f.At, &f.For)
	pool := b.Need("pool", "draft or target")
	pool.Choice(&f.Pool, "draft", "target")
	backend := b.Need("backend", "a number from 0, or all")
	readBackend(backend, &f.Backend)
	if b.At("drift").IsSet() {
		r.drifts(f, pool, backend)
	} else {
		r.exists(f, pool, backend)
	}

	if kind, ok := b.One("die", "drift"); ok {
		readWrong(b.At(kind), kind, &f)
	}
	b.Done()
	r.s.Faults = append(r.s.Faults, f)
}

// span reads when something begins, and for how long it lasts.
func (r *reading) span(b *yamlfile.Fields, at, lasts *time.Duration) {
	begin := b.Need("at", "a duration from the start")
	begin.Duration(at, 0, maxDuration)
	if begin.IsSet() && r.s.Duration > 0 && *at >= r.s.Duration {
		begin.Fail("is after the last arrival; want less than the duration, %s", yamlfile.Short(r.s.Duration))
	}
	b.At("for").Duration(lasts, 0, maxDuration)
}

// change reads settings that are set in the middle.
func (r *reading) change(p yamlfile.Value) {
	b, c := p.Fields(), Change{Settings: map[string]string{}}
	r.span(b, &c.At, &c.For)
	readSettings(b.Need("settings", "names and values, as in settings of the scenario"), c.Settings)
	b.Done()
	if n := len(r.s.Changes); n > 0 {
		if last := r.s.Changes[n-1]; last.For == 0 || c.At < last.At+last.For {
			b.At("at").Fail("is before the end of changes[%d]", n-1)
		}
	}
	r.s.Changes = append(r.s.Changes, c)
}

// outage reads when no replica reaches Redis.
func (r *reading) outage(p yamlfile.Value) {
	b, o := p.Fields(), Outage{}
	r.span(b, &o.At, &o.For)
	if lasts := b.Need("for", "a duration"); lasts.IsSet() && o.For == 0 {
		lasts.Fail("is 0; want more")
	}
	b.Done()
	if n := len(r.s.Outages); n > 0 && b.At("at").IsSet() && o.At < r.s.Outages[n-1].At+r.s.Outages[n-1].For {
		b.At("at").Fail("is before the end of redis_away[%d]", n-1)
	}
	r.s.Outages = append(r.s.Outages, o)
}

// readWrong reads the one thing that goes wrong.
func readWrong(p yamlfile.Value, kind string, f *Fault) {
	switch kind {
	case "die":
		f.Die = true
		p.Bool(&f.Die)
		if !f.Die {
			p.Fail("says that nothing happens; want true")
		}
	case "drift":
		f.Drift = &Drift{}
		b := p.Fields()
		b.Need("divergence", "a number of 0 … 1, of the language from the target's").Number(&f.Drift.Divergence, 0, 1)
		b.At("blind").Number(&f.Drift.Blind, 0, 1)
		b.Done()
	}
}

// readBackend reads a number from 0, or all.
func readBackend(p yamlfile.Value, to *int) {
	v, ok := p.Scalar("a number from 0, or all", yamlfile.KindNumber, yamlfile.KindText)
	if !ok {
		return
	}
	if v == "all" {
		*to = -1
		return
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n >= maxBackends {
		p.Fail("want a number of 0 … %d, or all", maxBackends-1)
		return
	}
	*to = n
}

// exists notes a fault of a backend that a case does not have.
func (r *reading) exists(f Fault, pool, backend yamlfile.Value) {
	for _, c := range r.s.Cases {
		in := ""
		if len(r.s.Cases) > 1 {
			in = fmt.Sprintf(" in case %q", c.Name)
		}
		switch n := c.backends(f.Pool); {
		case !pool.IsSet() || !backend.IsSet() || f.Pool == "":
		case n == 0:
			pool.Fail("there is no %s pool%s; want a pool that every case has", f.Pool, in)
			return
		case f.Backend >= n:
			backend.Fail("the %s pool has %d backends%s; want 0 … %d, or all", f.Pool, n, in, n-1)
			return
		}
	}
}

// drifts notes a drift of something else than a draft pool as a whole. Cases without one have no
// use for it.
func (r *reading) drifts(f Fault, pool, backend yamlfile.Value) {
	switch {
	case !pool.IsSet() || !backend.IsSet() || f.Pool == "":
	case f.Pool != "draft" || f.Backend >= 0:
		pool.Fail("a drift is of the draft pool and of all its backends; want pool: draft, backend: all")
	case !slices.ContainsFunc(r.s.Cases, func(c Case) bool { return c.Draft != nil }):
		pool.Fail("there is no draft pool in any case")
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
