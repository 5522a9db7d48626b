package pipeline

import (
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/strategy"
)

// observers are two observers of one answer.
type observers [2]strategy.Observer

var _ strategy.Observer = (*observers)(nil)

// observeToo returns an observer for both; either may be nil.
func observeToo(first, second strategy.Observer) strategy.Observer {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return &observers{first, second}
}

// Text implements strategy.Observer.
func (o *observers) Text(text []byte) {
	for _, each := range o {
		each.Text(text)
	}
}

// Chunk implements strategy.Observer.
func (o *observers) Chunk(chunk []byte) {
	for _, each := range o {
		each.Chunk(chunk)
	}
}

// Body implements strategy.Observer.
func (o *observers) Body(answer []byte) {
	for _, each := range o {
		each.Body(answer)
	}
}

// End implements strategy.Observer.
func (o *observers) End(e openai.Ending) {
	for _, each := range o {
		each.End(e)
	}
}
