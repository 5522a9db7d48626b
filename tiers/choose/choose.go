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
// The policy fit, which an unknown one is, too, takes the candidate with most of the prompt cached if it is not too busy (maxLoadRatio), else
// the one with the least expected wait ([Wait]). If the prompt fits nowhere, a backend that would queue it is better
// than none.
func Choose(policy string, cands []Candidate, request Request, turn uint64) int {
	c := choice{cands: cands, request: request, turn: turn}
	if policy == PolicyRoundRobin {
		c.setRequired(queue)
		return c.nth(turn)
	}
	c.setRequired(fits)
	return c.fit()
}
