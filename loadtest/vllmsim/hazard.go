package vllmsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Hazards are things that go wrong while an engine looks healthy: it answers, and every answer has its usual shape. They are
// part of a [Fault] and over the wire a list of names.
//
//   - constant_logprobs: the logprobs of generated tokens are 0.0, and so are those of the alternatives, as of engines that
//     speculate by themselves.
//   - swapped_model: another model answers, and where the engine tells the model of an answer itself, it tells that one.
//   - thinks_first: an answer to a chat begins with thoughts, unless the request turns them off.
type Hazards uint8

// The hazards.
const (
	HazardConstantLogprobs Hazards = 1 << iota
	HazardSwappedModel
	HazardThinksFirst
)

var hazardNames = []string{"constant_logprobs", "swapped_model", "thinks_first"}

// HazardNames returns what [ParseHazards] takes.
func HazardNames() []string { return slices.Clone(hazardNames) }

// ParseHazards reads a list of names.
func ParseHazards(names []string) (h Hazards, err error) {
	for _, name := range names {
		i := slices.Index(hazardNames, name)
		if i < 0 {
			return 0, fmt.Errorf("vllmsim: unknown hazard %q; known: %s", name, strings.Join(hazardNames, ", "))
		}
		h |= 1 << i
	}
	return h, nil
}

// MarshalJSON implements json.Marshaler.
func (h Hazards) MarshalJSON() ([]byte, error) {
	names := []string{}
	for i, name := range hazardNames {
		if h.has(1 << i) {
			names = append(names, name)
		}
	}
	return json.Marshal(names)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hazards) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	var err error
	*h, err = ParseHazards(names)
	return err
}

func (h Hazards) has(one Hazards) bool { return h&one != 0 }

// What a swapped model is called, and how far its language is from the first one's.
const (
	swappedName = "another-model"
	swappedSeed = 0x5a3b
)

// speaker is who answers, and under what name: "" is the server's own.
func (s *Server) speaker(h Hazards) (*Model, string) {
	if h.has(HazardSwappedModel) {
		return s.other, swappedName
	}
	return s.model, ""
}

// flatten takes the truth out of the logprobs of an output.
func (c *call) flatten(ev *event) {
	if ev.lp == nil || !c.fault.Hazards.has(HazardConstantLogprobs) {
		return
	}
	lp := *ev.lp
	lp.lp, lp.top = 0, slices.Clone(lp.top)
	for i := range lp.top {
		lp.top[i].lp = 0
	}
	ev.lp = &lp
}
