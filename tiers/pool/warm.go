package pool

// maxPrefixes is how many prefixes a pool remembers: with a few places each, about
// 4 MB.
const maxPrefixes = 1 << 14

// warmth fills in how much of the prompt each candidate has in its cache: as placements say, or as
// the index does, and all of it where it was computed a moment ago. The caller holds mu.
func (p *Pool) warmth(r *round, d *Demand) {
	prompt := r.need.PromptTokens
	r.raw = append(r.raw[:0], make([]int, len(r.backends))...)
	p.warm.Find(d.parts(), prompt, func(number, tokens int, main bool) {
		b := p.numbered[number]
		if b == nil {
			return
		}
		if i := r.index(b); i >= 0 && tokens > r.cands[i].Cached {
			r.cands[i].Cached, r.cands[i].Main = tokens, main
		}
	})
	for i, b := range r.backends {
		c, v := &r.cands[i], &r.views[i]
		r.raw[i] = c.Cached
		if c.Cached > 0 {
			c.Cached = int(float64(c.Cached) * b.hits.Trust())
		}
		switch {
		case v.known && v.whole: // the chain is the prompt's as it was when it was learned
			c.Cached = min(max(v.cached, c.Cached), prompt)
		case v.known:
			c.Cached = min(v.cached, prompt)
		}
		if d.WarmBackend != "" && b.id == d.WarmBackend {
			c.Cached, c.Main = max(prompt-1, 0), true
		}
	}
}

// leave gives up a place that the engine has no room for: where a prompt was expected
// to be warm, most such expectations were wrong, and so it goes elsewhere. One at a
// time: those that stay may fit now. The caller holds mu.
func (p *Pool) leave(r *round, d *Demand) {
	for i, b := range r.backends {
		if i != r.picked && r.raw[i] > r.raw[r.picked] && b.hits.Trust() < 1 {
			b.hits.Forgive()
			p.warm.Remove(d.parts(), b.number)
		}
	}
}
