package choose

// nth is the turn'th of those that may be used, counting round and round.
func (c *choice) nth(turn uint64) int {
	n := uint64(0)
	for i := range c.cands {
		if c.isUsable(i) {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	skip := turn % n
	for i := range c.cands {
		if !c.isUsable(i) {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return -1
}

// Policy is a way to choose that an operator cannot set: the lab compares some that no gateway should run.
// It returns the index of one of the usable candidates, −1 if there are none. It must be pure.
type Policy func(Usable) int

// Choose is [Choose] by this policy.
func (p Policy) Choose(cands []Candidate, request Request, turn uint64) int {
	c := choice{cands: cands, request: request, turn: turn}
	c.setRequired(queue)
	return p(Usable{Turn: turn, Random: mix(turn), choice: &c})
}

// Usable is the candidates that a request may use at best.
type Usable struct {
	Turn   uint64 // counted up by the caller
	Random uint64 // 64 bits that are fixed by the turn
	choice *choice
}

// Nth is the n'th of them, counting round and round; −1 if there are none.
func (u Usable) Nth(n uint64) int { return u.choice.nth(n) }

// Cheapest is the one of least cost, which must be positive; between equals the turn decides. −1 if there are
// none.
func (u Usable) Cheapest(cost func(*Candidate, Request) float64) int {
	return u.choice.cheapest(func(_ Config, c *Candidate, request Request) float64 { return finiteCost(cost(c, request)) }, 0, 0)
}

// Requests is the number of requests at candidate i.
func (u Usable) Requests(i int) float64 {
	return crowd(u.choice.cfg, &u.choice.cands[i], u.choice.request)
}
