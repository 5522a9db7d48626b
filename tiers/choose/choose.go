// Package choose decides which backend of a pool a request goes to. It is pure: it
// sees values and returns an index, so that the gateway and the lab decide alike.
//
// Start at [Choose]; what the default policy minimises is at [Wait].
package choose

// Choose returns the index of the candidate to use, −1 when none may be. It is
// pure: the same values and the same turn give the same answer. Turn is counted
// up by the caller and decides between equals.
//
// Where everybody that may be used is above the request's limit, nobody is chosen; for a
// patient request also where that holds for the backend where it is warm, as long as the
// wait costs less than to compute the prompt elsewhere.
//
// Fit takes the candidate where most of the prompt is warm, as long as it is not too
// busy (Config.Spill); else the one of least expected wait, [Wait]. Where the
// prompt fits nowhere, a backend that would queue it is better than none.
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
