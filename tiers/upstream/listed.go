package upstream

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
)

// listedAnswer is an answer of /v1/chat/completions or /v1/completions, with tokens named by their ids.
type listedAnswer struct {
	Choices []struct {
		IDs      []int32 `json:"token_ids"`
		Finish   string  `json:"finish_reason"`
		Logprobs *struct {
			Content []struct {
				Top []struct {
					Token   string  `json:"token"`
					Logprob float64 `json:"logprob"`
				} `json:"top_logprobs"`
			} `json:"content"`
			Own []*float64           `json:"token_logprobs"`
			Top []map[string]float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// parseListed reads the alternatives at this many positions of the first choice. The error matches
// [engine.ErrListed].
func parseListed(body []byte, places int) ([][]accept.Token, error) {
	var a listedAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrListed, err)
	}
	if len(a.Choices) != 1 || a.Choices[0].Logprobs == nil {
		return nil, fmt.Errorf("%w: %d choices, or no logprobs", engine.ErrListed, len(a.Choices))
	}
	l := a.Choices[0].Logprobs
	if n := max(len(l.Content), len(l.Top)); n != places {
		return nil, fmt.Errorf("%w: alternatives at %d places of %d", engine.ErrListed, n, places)
	}
	out := make([][]accept.Token, places)
	for i := range out {
		var bad error
		add := func(name string, lp float64) {
			id, err := namedID(name)
			if bad == nil && (err != nil || slices.ContainsFunc(out[i], func(t accept.Token) bool { return t.ID == id })) {
				bad = fmt.Errorf("%w: place %d lists %.40q", engine.ErrListed, i, name)
			}
			out[i] = append(out[i], accept.Token{ID: id, Logprob: bounded(lp)})
		}
		if len(l.Content) > 0 {
			for _, t := range l.Content[i].Top {
				add(t.Token, t.Logprob)
			}
		} else {
			for name, lp := range l.Top[i] {
				add(name, lp)
			}
		}
		if bad != nil {
			return nil, bad
		}
	}
	return out, nil
}

// namedID reads "token_id:17".
func namedID(name string) (int32, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(name, "token_id:"), 10, 32)
	if err != nil || id < 0 || !strings.HasPrefix(name, "token_id:") {
		return 0, engine.ErrListed
	}
	return int32(id), nil
}

// bounded is a logprob within the engines' range: −9999 means minus infinity, and rounding may give a value
// above 0.
func bounded(lp float64) accept.Nats { return accept.Nats(math.Min(math.Max(lp, -9999), 0)) }

// parseScored reads the top most likely tokens at the position of each id from a score's answer, whose form
// was checked before. Engines always list the id itself. If it is an additional one, it is left out, because
// the list must not depend on which token was drafted. The error matches [engine.ErrListed].
func parseScored(body []byte, ids []int32, top int) ([][]accept.Token, error) {
	type places []json.RawMessage
	var a struct {
		Choices []struct {
			Places places `json:"prompt_logprobs"`
		} `json:"choices"`
		Places places `json:"prompt_logprobs"` // of /inference/v1/generate
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrListed, err)
	}
	all := a.Places
	if len(all) == 0 && len(a.Choices) > 0 {
		all = a.Choices[0].Places
	}
	if len(all) < len(ids) {
		return nil, fmt.Errorf("%w: %d places for %d ids", engine.ErrListed, len(all), len(ids))
	}
	all = all[len(all)-len(ids):]
	out := make([][]accept.Token, len(ids))
	for i, raw := range all {
		var at map[int32]struct {
			Logprob float64 `json:"logprob"`
		}
		if err := json.Unmarshal(raw, &at); err != nil {
			return nil, fmt.Errorf("%w: place %d: %w", engine.ErrListed, i, err)
		}
		if len(at) > top {
			delete(at, ids[i])
		}
		if len(at) != top {
			return nil, fmt.Errorf("%w: place %d: %d tokens, not %d", engine.ErrListed, i, len(at), top)
		}
		for id, t := range at {
			out[i] = append(out[i], accept.Token{ID: id, Logprob: bounded(t.Logprob)})
		}
	}
	return out, nil
}

// parseDraws reads the choices of an answer of one token each; asked is the requested number. The error
// matches [engine.ErrListed].
func parseDraws(body []byte, asked int) ([]engine.Draw, error) {
	var a listedAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrListed, err)
	}
	if n := len(a.Choices); n == 0 || n > asked {
		return nil, fmt.Errorf("%w: %d draws of %d", engine.ErrListed, n, asked)
	}
	out := make([]engine.Draw, 0, len(a.Choices))
	for i := range a.Choices {
		c := &a.Choices[i]
		one := len(c.IDs) == 1 && c.IDs[0] >= 0 && c.Logprobs != nil && len(c.Logprobs.Own) == 1 && c.Logprobs.Own[0] != nil
		if !one || c.Finish != "stop" && c.Finish != "length" {
			return nil, fmt.Errorf("%w: draw %d of %d ids, ended by %.20q", engine.ErrListed, i, len(c.IDs), c.Finish)
		}
		out = append(out, engine.Draw{Token: accept.Token{ID: c.IDs[0], Logprob: bounded(*c.Logprobs.Own[0])}, Ends: c.Finish == "stop"})
	}
	return out, nil
}
