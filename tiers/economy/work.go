package economy

// TokenPrice is the price of a pool's tokens in USD each: of a prompt token that is computed, of one that is found in the
// prefix cache, and of an answer token. On the operator's own backends it is the rent of the time that a full backend
// needs for the token, so it does not move with load; a provider names its own. The zero value is unknown.
type TokenPrice struct {
	Input, Cached, Output float64
	Free                  bool // they cost nothing, as the operator says
}

// Known reports whether there is a price.
func (p TokenPrice) Known() bool { return p.Free || p.Input > 0 || p.Output > 0 }

// Work is what a backend has done for a call, in tokens.
type Work struct {
	Prompt int // of all prompts
	Cached int // of these, found in the prefix cache
	Answer int // of all answers
}

// Less returns the work without a part of it that was counted already.
func (w Work) Less(o Work) Work {
	return Work{Prompt: max(w.Prompt-o.Prompt, 0), Cached: max(w.Cached-o.Cached, 0), Answer: max(w.Answer-o.Answer, 0)}
}

// CostOfWork returns the price of work in USD. It is the only one: what requests cost, what the target alone would have
// cost, audits, budgets and bills of providers are all computed by it. Where backends are full, the costs of all work add up
// to their rent.
func CostOfWork(p TokenPrice, w Work) float64 {
	cached := min(w.Cached, w.Prompt)
	return float64(w.Prompt-cached)*p.Input + float64(cached)*p.Cached + float64(w.Answer)*p.Output
}
