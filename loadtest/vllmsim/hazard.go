package vllmsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hazards are things that go wrong while an engine looks healthy: it answers, and every answer has its usual shape. They are
// part of a [Fault] and over the wire a list of names.
//
//   - constant_logprobs: the logprobs of generated tokens are 0.0, and so are those of the alternatives, as of engines that
//     speculate by themselves. llama.cpp tells the first token's truth, and 0.0 without alternatives for all others
//     (tools/server/server-context.cpp, "TODO: set result.probs").
//   - swapped_model: another model answers, and where the engine tells the model of an answer itself, it tells that one. Ollama
//     unloads the model after each request: the next one's first token is late, and /api/ps lists nothing.
//   - generates_after_disconnect: an answer whose client is gone is generated to its end.
//   - thinks_first: an answer to a chat begins with thoughts, unless the request turns them off.
//   - short_context: the context is a quarter of what the model promises.
type Hazards uint8

// The hazards.
const (
	HazardConstantLogprobs Hazards = 1 << iota
	HazardSwappedModel
	HazardGeneratesOn
	HazardThinksFirst
	HazardShortContext
)

var hazardNames = []string{"constant_logprobs", "swapped_model", "generates_after_disconnect", "thinks_first", "short_context"}

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
	if h.has(HazardSwappedModel) && (s.face == nil || !s.face.loads) {
		return s.other, swappedName
	}
	return s.model, ""
}

// shortBy is how many times shorter than promised a short context is.
const shortBy = 4

// window is the context length that holds now, in tokens.
func (s *Server) window() int {
	if s.faults.get().Hazards.has(HazardShortContext) {
		return max(s.opts.MaxModelLen/shortBy, 1)
	}
	return s.opts.MaxModelLen
}

// flatten takes the truth out of the logprobs of an output, the n-th of its choice from 1 on.
func (c *call) flatten(ev *event, n int) {
	if ev.lp == nil || !c.fault.Hazards.has(HazardConstantLogprobs) {
		return
	}
	lp := *ev.lp
	lp.lp = 0
	switch {
	case c.s.opts.Engine != engineLlamaCpp:
		lp.top = slices.Clone(lp.top)
		for i := range lp.top {
			lp.top[i].lp = 0
		}
	case n == 1:
		return
	default:
		lp.top = nil
	}
	ev.lp = &lp
}

// loadTime is how long an engine that loads models by need takes for it, in the profile's time.
const loadTime = 3 * time.Second

// load waits until the model is in memory; it reports false when the client left before. done unloads it again, where that
// is the hazard.
func (c *call) load() (done func(), ok bool) {
	if c.s.face == nil || !c.s.face.loads {
		return func() {}, true
	}
	if !c.s.loaded.Load() {
		t := time.NewTimer(time.Duration(float64(loadTime) / c.s.opts.TimeScale))
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.r.Context().Done():
			return nil, false
		case <-c.s.closing:
			return nil, false
		}
		c.s.loaded.Store(true)
	}
	return func() {
		if c.fault.Hazards.has(HazardSwappedModel) {
			c.s.loaded.Store(false)
		}
	}, true
}
