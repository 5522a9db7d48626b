package vllmsim

import (
	"fmt"
	"slices"
	"strings"
)

// Hazards are things that go wrong while an engine looks healthy: it answers, and every answer has its usual shape.
type Hazards struct {
	// The logprobs of generated tokens are 0.0, and so are those of the alternatives, as of engines that speculate by
	// themselves.
	ConstantLogprobs bool `json:"constant_logprobs,omitempty"`
	// Another model answers, and where the engine tells the model of an answer itself, it tells that one.
	SwappedModel bool `json:"swapped_model,omitempty"`
	// An answer to a chat begins with thoughts, unless the request turns them off.
	ThinksFirst bool `json:"thinks_first,omitempty"`
}

// HazardNames returns what [Options.Hazards] can name.
func HazardNames() []string { return []string{"constant_logprobs", "swapped_model", "thinks_first"} }

// add adds hazards by their names.
func (h *Hazards) add(names []string) error {
	all := []*bool{&h.ConstantLogprobs, &h.SwappedModel, &h.ThinksFirst} // in the order of the names
	for _, name := range names {
		i := slices.Index(HazardNames(), name)
		if i < 0 {
			return fmt.Errorf("vllmsim: unknown hazard %q; known: %s", name, strings.Join(HazardNames(), ", "))
		}
		*all[i] = true
	}
	return nil
}

// What a swapped model is called, and how far its language is from the first one's.
const (
	swappedName = "another-model"
	swappedSeed = 0x5a3b
)

// speaker is who answers, and under what name.
func (s *Server) speaker(h Hazards) (*Model, string) {
	if h.SwappedModel {
		return s.other, swappedName
	}
	return s.model, s.opts.Model
}

// flatten takes the truth out of the logprobs of an output.
func (c *call) flatten(ev *event) {
	if ev.lp == nil || !c.fault.Hazards.ConstantLogprobs {
		return
	}
	lp := *ev.lp
	lp.lp, lp.top = 0, slices.Clone(lp.top)
	for i := range lp.top {
		lp.top[i].lp = 0
	}
	ev.lp = &lp
}
