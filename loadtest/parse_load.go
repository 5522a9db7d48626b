package loadtest

import (
	"time"
)

// arrivals reads when conversations begin.
func (r *reading) arrivals(b *block) {
	if b.entries == nil {
		return
	}
	a := &r.s.Arrivals
	kind, ok := b.one(Closed, Rate, Poisson, Bursts, Day, Replay)
	if ok {
		a.Kind = kind
		p := b.entries[kind]
		switch kind {
		case Closed:
			c := p.fields()
			c.need("users", "how many take turns").whole(&a.Users, 1, maxUsers)
			c.at("think").spread(&a.Think, 0, maxSeconds)
			c.done()
		case Rate, Poisson:
			p.number(&a.PerSecond, 0.001, maxPerSecond)
		case Bursts:
			c := p.fields()
			c.at("per_second").number(&a.PerSecond, 0, maxPerSecond)
			c.need("burst", "how many come at once").whole(&a.Burst, 1, maxUsers)
			c.need("every", "a duration such as 30s").span(&a.Every, 100*time.Millisecond)
			c.at("tenant").id(&a.Tenant)
			c.done()
		case Day:
			r.day(p.fields())
		case Replay:
			r.trace(p.fields())
		}
	}
	b.done()
}

// day reads a rate that rises and falls.
func (r *reading) day(b *block) {
	a := &r.s.Arrivals
	low, high := b.need("low", "the rate per second at its quietest"), b.need("high", "the rate per second at its busiest")
	low.number(&a.Lowest, 0, maxPerSecond)
	high.number(&a.PerSecond, 0.001, maxPerSecond)
	if a.Every = maxDuration; b.at("length").given() {
		b.at("length").span(&a.Every, time.Second)
	}
	if low.given() && high.given() && a.Lowest > a.PerSecond {
		low.fail("is above high; want at most %v", a.PerSecond)
	}
	b.done()
}

func (r *reading) trace(b *block) {
	t := &r.s.Arrivals.Trace
	t.Speed = 1
	b.need("path", "a file's").oneLine(&t.Path, 1024)
	b.need("format", "azure or jsonl").choice(&t.Format, "azure", "jsonl")
	b.at("speed").number(&t.Speed, 0.001, 1000)
	b.done()
}

// prompts reads the mix. A trace has all that they would say, so that they may
// be left out.
func (r *reading) prompts(b *block) {
	s := r.s
	if s.Arrivals.Kind == Replay && !b.at("prompts").given() {
		s.Prompts = []Prompt{{Name: Replay, Weight: 1, Stream: true,
			Turns: Spread{Fixed: 1}, Question: Spread{Fixed: 1}}}
		return
	}
	p := b.need("prompts", "a list of kinds of conversations")
	p.items(64, r.prompt)
	sum := 0.0
	for _, x := range s.Prompts {
		sum += x.Weight
	}
	if len(s.Prompts) > 0 && sum == 0 {
		p.fail("no weight is above 0; want at least one")
	}
}

func (r *reading) prompt(_ int, p spot) {
	x := Prompt{Weight: 1, Stream: true, Turns: Spread{Fixed: 1}, Question: Spread{Fixed: 1}}
	b := p.fields()
	name := b.need("name", "a word")
	name.id(&x.Name)
	for i, other := range r.s.Prompts {
		if x.Name != "" && other.Name == x.Name {
			name.fail("is already that of prompts[%d]", i)
			break
		}
	}
	b.at("weight").number(&x.Weight, 0, 1e6)
	b.at("tenant").id(&x.Tenant)
	system, context := b.at("system"), b.at("context")
	r.shared(system, &x.System)
	r.shared(context, &x.Context)
	question := b.at("question")
	turns, think := b.at("turns"), b.at("think")
	question.spread(&x.Question, 1, maxTokens)
	turns.spread(&x.Turns, 1, maxTurns)
	think.spread(&x.Think, 0, maxSeconds)
	repeat, output := b.at("repeat"), b.at("output")
	repeat.number(&x.Repeat, 0, maxRepeat)
	standing := b.at("catalogue")
	r.catalogue(standing, &x)
	output.spread(&x.Output, 0, maxTokens)
	limit := b.at("max_tokens")
	limit.whole(&x.MaxTokens, 0, maxTokens)
	b.at("temperature").number(&x.Temperature, 0, 2)
	b.at("stream").truth(&x.Stream)
	if r.s.Arrivals.Kind == Replay {
		for _, f := range []spot{system, context, question, turns, think, repeat, standing, output, limit} {
			if f.given() {
				f.fail("contradicts arrivals.trace, which says it; remove it")
			}
		}
	} else if b.entries != nil && !question.given() {
		b.need("question", "tokens of each user message, such as 40 or {p50: 30, p95: 120}")
	}
	b.done()
	r.s.Prompts = append(r.s.Prompts, x)
}

// catalogue reads what is said again and again.
func (r *reading) catalogue(p spot, x *Prompt) {
	if !p.given() {
		return
	}
	c := &x.Catalogue
	b := p.fields()
	b.need("share", "of the conversations, 0 … 1").number(&c.Share, 0, 1)
	b.need("size", "how many of them a tenant has").whole(&c.Size, 1, maxVariants)
	b.at("zipf").number(&c.Zipf, 0, 10)
	b.done()
	switch {
	case x.Repeat > 0:
		p.fail("contradicts repeat; want one of them")
	case x.System.PerUser || x.Context.PerUser:
		p.fail("is the same for all users of a tenant, and contradicts per_user; want one of them")
	}
}

// shared reads text that several conversations begin with.
func (r *reading) shared(p spot, to *Shared) {
	if !p.given() {
		return
	}
	b := p.fields()
	b.need("tokens", "a number, {min, max} or {p50, p95}").spread(&to.Tokens, 0, maxTokens)
	variants, zipf, per := b.at("variants"), b.at("zipf"), b.at("per_user")
	variants.whole(&to.Variants, 0, maxVariants)
	zipf.number(&to.Zipf, 0, 10)
	per.truth(&to.PerUser)
	switch {
	case to.PerUser && r.s.Arrivals.Kind != Closed && r.s.Arrivals.Kind != "":
		per.fail("needs users; want arrivals.closed, or false")
	case to.PerUser && to.Variants > 0:
		variants.fail("contradicts per_user; want one of them")
	case zipf.given() && to.Zipf > 0 && to.Variants == 0:
		zipf.fail("needs variants to choose from; want variants of 1 or more")
	}
	b.done()
}

// tenants reads the customers; without any there is one.
func (r *reading) tenants(p spot) {
	p.items(1000, r.tenant)
	if len(r.s.Tenants) == 0 {
		r.s.Tenants = []Tenant{{ID: "default", Weight: 1, Priority: map[string]float64{"normal": 1}}}
	}
	sum := 0.0
	for _, t := range r.s.Tenants {
		sum += t.Weight
	}
	if sum == 0 {
		p.fail("no weight is above 0; want at least one")
	}
}

// tenant reads one customer.
func (r *reading) tenant(_ int, p spot) {
	b := p.fields()
	x := Tenant{Weight: 1}
	id := b.need("id", "a word")
	id.id(&x.ID)
	for i, other := range r.s.Tenants {
		if x.ID != "" && other.ID == x.ID {
			id.fail("is already that of tenants[%d]", i)
			break
		}
	}
	b.at("weight").number(&x.Weight, 0, 1e6)
	if pr := b.at("priority"); pr.given() {
		x.Priority = map[string]float64{}
		c := pr.fields()
		sum := 0.0
		for _, name := range []string{"high", "normal", "low"} {
			w := 0.0
			f := c.at(name)
			f.number(&w, 0, 1e6)
			if f.given() {
				x.Priority[name] = w
			}
			sum += w
		}
		if c.entries != nil && sum == 0 {
			pr.fail("no weight is above 0; want at least one of high, normal, low")
		}
		c.done()
	} else {
		x.Priority = map[string]float64{"normal": 1}
	}
	b.done()
	r.s.Tenants = append(r.s.Tenants, x)
}
