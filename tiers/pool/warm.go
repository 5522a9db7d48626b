package pool

// maxPrefixes bounds the prefixes that a pool remembers: about 4 MB with a few backends each.
const maxPrefixes = 1 << 14

// warmth sets how much of the prompt each candidate has in its cache: by placements, and all of it on the backend that has just computed it. The caller holds mu.
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
		c := &r.cands[i]
		r.raw[i] = c.Cached
		if c.Cached > 0 {
			c.Cached = int(float64(c.Cached) * b.hits.Trust())
		}
		if d.WarmBackend != "" && b.id == d.WarmBackend {
			c.Cached, c.Main = max(prompt-1, 0), true
		}
	}
}

// leave removes an expected prefix that the engine has no space for: most such expectations on that backend were wrong.
// It removes one at a time, because the remaining ones may fit now. The caller holds mu.
func (p *Pool) leave(r *round, d *Demand) {
	for i, b := range r.backends {
		if i != r.picked && r.raw[i] > r.raw[r.picked] && b.hits.Trust() < 1 {
			b.hits.Forgive()
			p.warm.Remove(d.parts(), b.number)
		}
	}
}
