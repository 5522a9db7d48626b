package capacity

// Tally sums requests of this replica.
type Tally struct {
	Requests int
	Waiting  int // requests whose first token has not come
	Queued   int // prompt tokens that are still to be computed, without those expected in the prefix cache
	Held     int // prompt tokens: what fills the KV cache soon after the start
	Tokens   int // prompt tokens and half of the expected output: what fills it on average
}

func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.Waiting += o.Waiting
	t.Queued += o.Queued
	t.Held += o.Held
	t.Tokens += o.Tokens
}

func (t *Tally) sub(o Tally) {
	t.Requests -= o.Requests
	t.Waiting -= o.Waiting
	t.Queued -= o.Queued
	t.Held -= o.Held
	t.Tokens -= o.Tokens
}
