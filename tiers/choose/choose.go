// Package choose decides which backend of a pool a request goes to. It is pure: it takes values and returns an index, so
// that the gateway and the lab decide alike.
//
// Start at [Choose]; [Wait] is the cost that the default policy minimizes.
package choose

// Choose returns the index of the candidate to use, −1 if none may be used. Equal values and an equal turn give an equal
// result. The caller increments turn, which decides between equals.
//
// If all usable candidates exceed the request's limit, none is chosen. With WaitForCapacity this also holds if the
// backend with the cached prefix exceeds it, as long as waiting costs less than computing the prompt elsewhere.
//
// The policy fit takes the candidate with most of the prompt cached if it is not too busy (Config.MaxLoadRatio), else
// the one with the least expected wait ([Wait]). If the prompt fits nowhere, a backend that would queue it is better
// than none.
func Choose(cfg Config, cands []Candidate, request Request, turn uint64) int {
	c := choice{cfg: cfg, cands: cands, request: request, turn: turn}
	switch cfg.Policy {
	case PolicyRoundRobin:
		c.setRequired(queue)
		return c.nth(turn)
	case PolicyLeastRequests:
		c.setRequired(queue)
		return c.cheapest(crowd, 0, 0)
	}
	c.setRequired(fits)
	return c.fit()
}
