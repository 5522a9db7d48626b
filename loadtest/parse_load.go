package loadtest

import (
	"time"

	"github.com/foregate/foregate/internal/yamlfile"
)

// arrivals reads when conversations begin.
func (r *reading) arrivals(b *yamlfile.Fields) {
	if !b.Opened() {
		return
	}
	a := &r.s.Arrivals
	kind, ok := b.One(Closed, Rate, Poisson, Bursts, Day)
	if ok {
		a.Kind = kind
		p := b.At(kind)
		switch kind {
		case Closed:
			c := p.Fields()
			c.Need("users", "how many take turns").Whole(&a.Users, 1, maxUsers)
			readSpread(c.At("think"), &a.Think, 0, maxSeconds)
			c.Done()
		case Rate, Poisson:
			p.Number(&a.PerSecond, 0.001, maxPerSecond)
		case Bursts:
			c := p.Fields()
			c.At("per_second").Number(&a.PerSecond, 0, maxPerSecond)
			r.bursts(c)
		case Day:
			r.day(p.Fields())
		}
	}
	b.Done()
}

// day reads a rate that rises and falls.
func (r *reading) day(b *yamlfile.Fields) {
	a := &r.s.Arrivals
	low, high := b.Need("low", "the rate per second at its quietest"), b.Need("high", "the rate per second at its busiest")
	low.Number(&a.Lowest, 0, maxPerSecond)
	high.Number(&a.PerSecond, 0.001, maxPerSecond)
	if a.Length = maxDuration; b.At("length").IsSet() {
		b.At("length").Duration(&a.Length, time.Second, maxDuration)
	}
	if low.IsSet() && high.IsSet() && a.Lowest > a.PerSecond {
		low.Fail("is above high; want at most %v", a.PerSecond)
	}
	if bursts := b.At("bursts"); bursts.IsSet() {
		r.bursts(bursts.Fields())
	}
	b.Done()
}

// bursts reads what comes at once.
func (r *reading) bursts(b *yamlfile.Fields) {
	a := &r.s.Arrivals
	b.Need("burst", "how many come at once").Whole(&a.Burst, 1, maxUsers)
	b.Need("every", "a duration such as 30s").Duration(&a.Every, 100*time.Millisecond, maxDuration)
	readID(b.At("tenant"), &a.Tenant)
	b.Done()
}

// prompts reads the mix.
func (r *reading) prompts(b *yamlfile.Fields) {
	s := r.s
	p := b.Need("prompts", "a list of kinds of conversations")
	readItems(p, 64, r.prompt)
	readWeights(p, s.Prompts, func(x Prompt) float64 { return x.Weight })
}

func (r *reading) prompt(p yamlfile.Value) {
	x := Prompt{Weight: 1, Stream: true, Turns: Spread{Fixed: 1}, Question: Spread{Fixed: 1}}
	b := p.Fields()
	name := b.Need("name", "a word")
	readID(name, &x.Name)
	readOwn(name, "prompts", r.s.Prompts, func(o Prompt) bool { return x.Name != "" && o.Name == x.Name })
	b.At("weight").Number(&x.Weight, 0, 1e6)
	readID(b.At("tenant"), &x.Tenant)
	system, context := b.At("system"), b.At("context")
	r.shared(system, &x.System)
	r.shared(context, &x.Context)
	question := b.At("question")
	turns, think := b.At("turns"), b.At("think")
	readSpread(question, &x.Question, 1, maxTokens)
	readSpread(turns, &x.Turns, 1, maxTurns)
	readSpread(think, &x.Think, 0, maxSeconds)
	repeat, output := b.At("repeat"), b.At("output")
	repeat.Number(&x.Repeat, 0, maxRepeat)
	standing := b.At("catalogue")
	r.catalogue(standing, &x)
	readSpread(output, &x.Output, 0, maxTokens)
	limit := b.At("max_tokens")
	limit.Whole(&x.MaxTokens, 0, maxTokens)
	b.At("temperature").Number(&x.Temperature, 0, 2)
	b.At("stream").Bool(&x.Stream)
	if b.Opened() && !question.IsSet() {
		b.Need("question", "tokens of each user message, such as 40 or {p50: 30, p95: 120}")
	}
	b.Done()
	r.s.Prompts = append(r.s.Prompts, x)
}

// catalogue reads what is said again and again.
func (r *reading) catalogue(p yamlfile.Value, x *Prompt) {
	if !p.IsSet() {
		return
	}
	c := &x.Catalogue
	b := p.Fields()
	b.Need("share", "of the conversations, 0 … 1").Number(&c.Share, 0, 1)
	b.Need("size", "how many of them a tenant has").Whole(&c.Size, 1, maxVariants)
	b.At("zipf").Number(&c.Zipf, 0, 10)
	b.Done()
	switch {
	case x.Repeat > 0:
		p.Fail("contradicts repeat; want one of them")
	case x.System.PerUser || x.Context.PerUser:
		p.Fail("is the same for all users of a tenant, and contradicts per_user; want one of them")
	}
}

// shared reads text that several conversations begin with.
func (r *reading) shared(p yamlfile.Value, to *Shared) {
	if !p.IsSet() {
		return
	}
	b := p.Fields()
	readSpread(b.Need("tokens", "a number, {min, max} or {p50, p95}"), &to.Tokens, 0, maxTokens)
	variants, zipf, per := b.At("variants"), b.At("zipf"), b.At("per_user")
	variants.Whole(&to.Variants, 0, maxVariants)
	zipf.Number(&to.Zipf, 0, 10)
	per.Bool(&to.PerUser)
	switch {
	case to.PerUser && r.s.Arrivals.Kind != Closed && r.s.Arrivals.Kind != "":
		per.Fail("needs users; want arrivals.closed, or false")
	case to.PerUser && to.Variants > 0:
		variants.Fail("contradicts per_user; want one of them")
	case zipf.IsSet() && to.Zipf > 0 && to.Variants == 0:
		zipf.Fail("needs variants to choose from; want variants of 1 or more")
	}
	b.Done()
}

// tenants reads the customers; without any there is one.
func (r *reading) tenants(p yamlfile.Value) {
	readItems(p, 1000, r.tenant)
	if len(r.s.Tenants) == 0 {
		r.s.Tenants = []Tenant{{ID: "default", Weight: 1, Priority: map[string]float64{"normal": 1}}}
	}
	readWeights(p, r.s.Tenants, func(t Tenant) float64 { return t.Weight })
}

// tenant reads one customer.
func (r *reading) tenant(p yamlfile.Value) {
	b := p.Fields()
	x := Tenant{Weight: 1}
	id := b.Need("id", "a word")
	readID(id, &x.ID)
	readOwn(id, "tenants", r.s.Tenants, func(o Tenant) bool { return x.ID != "" && o.ID == x.ID })
	b.At("weight").Number(&x.Weight, 0, 1e6)
	if pr := b.At("priority"); pr.IsSet() {
		x.Priority = map[string]float64{}
		c := pr.Fields()
		sum := 0.0
		for _, name := range []string{"high", "normal", "low"} {
			w := 0.0
			f := c.At(name)
			f.Number(&w, 0, 1e6)
			if f.IsSet() {
				x.Priority[name] = w
			}
			sum += w
		}
		if c.Opened() && sum == 0 {
			pr.Fail("no weight is above 0; want at least one of high, normal, low")
		}
		c.Done()
	} else {
		x.Priority = map[string]float64{"normal": 1}
	}
	b.Done()
	r.s.Tenants = append(r.s.Tenants, x)
}
