package tiers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// errListed says that an answer does not list what thinning needs.
var errListed = errors.New("the tokens are not listed as they should be")

// thinBody asks the draft pool for an answer in one piece, drawn from few enough tokens that all are listed, with
// so many tokens at most. Its law is named to the last field, so that no default of the draft's changes it.
func (j *job) thinBody(most int) []byte {
	r := j.ask.Request
	s := plan.ThinDrafting(r)
	edits := append(j.engineEdits(j.route.Draft),
		openai.Edit{Name: "stream", Value: []byte("false")}, openai.Edit{Name: "stream_options"},
		openai.Edit{Name: "include_stop_str_in_output"}, openai.Edit{Name: "max_completion_tokens"},
		openai.Edit{Name: "max_tokens", Value: strconv.AppendInt(nil, int64(most), 10)},
		openai.Edit{Name: "temperature", Value: strconv.AppendFloat(nil, s.Temperature, 'g', -1, 64)},
		openai.Edit{Name: "top_p", Value: strconv.AppendFloat(nil, s.TopP, 'g', -1, 64)},
		openai.Edit{Name: "top_k", Value: strconv.AppendInt(nil, int64(s.TopK), 10)},
		openai.Edit{Name: "min_p", Value: strconv.AppendFloat(nil, s.MinP, 'g', -1, 64)}, openai.Edit{Name: "repetition_penalty", Value: []byte("1")},
		openai.Edit{Name: "return_token_ids", Value: []byte("true")},
		openai.Edit{Name: "return_tokens_as_token_ids", Value: []byte("true")})
	top := strconv.AppendInt(nil, plan.ThinTop, 10)
	if r.Kind == openai.Completion {
		edits = append(edits, openai.Edit{Name: "logprobs", Value: top})
	} else {
		edits = append(edits, openai.Edit{Name: "logprobs", Value: []byte("true")}, openai.Edit{Name: "top_logprobs", Value: top})
	}
	return r.Apply(make([]byte, 0, len(r.Body)+512), edits...)
}

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

// parseListed reads the alternatives at each of so many places of the first choice. The error matches
// errListed.
func parseListed(body []byte, places int) ([][]accept.Token, error) {
	var a listedAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errListed, err)
	}
	if len(a.Choices) != 1 || a.Choices[0].Logprobs == nil {
		return nil, fmt.Errorf("%w: %d choices, or no logprobs", errListed, len(a.Choices))
	}
	l := a.Choices[0].Logprobs
	if n := max(len(l.Content), len(l.Top)); n != places {
		return nil, fmt.Errorf("%w: alternatives at %d places of %d", errListed, n, places)
	}
	out := make([][]accept.Token, places)
	for i := range out {
		var bad error
		add := func(name string, lp float64) {
			id, err := namedID(name)
			if bad == nil && (err != nil || slices.ContainsFunc(out[i], func(t accept.Token) bool { return t.ID == id })) {
				bad = fmt.Errorf("%w: place %d lists %.40q", errListed, i, name)
			}
			out[i] = append(out[i], accept.Token{ID: id, Logprob: bounded(lp)})
		}
		if len(l.Content) > 0 {
			seen := l.Content[i].Top
			for _, t := range seen {
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
		return 0, errListed
	}
	return int32(id), nil
}

// bounded is a logprob within what engines write: −9999 stands for minus infinity, and rounding may take one above 0.
func bounded(lp float64) accept.Nats { return accept.Nats(math.Min(math.Max(lp, -9999), 0)) }

// parseScored reads the likeliest tokens at the place of each id from a score's answer, whose own shape was
// checked before. The id itself is listed in any case: where it is one more than was asked for, it is left out, since what is
// listed must not hang on which token was drafted.
func parseScored(body []byte, ids []int32) ([][]accept.Token, error) {
	type places []json.RawMessage
	var a struct {
		Choices []struct {
			Places places `json:"prompt_logprobs"`
		} `json:"choices"`
		Places places `json:"prompt_logprobs"` // of /inference/v1/generate
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errListed, err)
	}
	all := a.Places
	if len(all) == 0 && len(a.Choices) > 0 {
		all = a.Choices[0].Places
	}
	if len(all) < len(ids) {
		return nil, fmt.Errorf("%w: %d places for %d ids", errListed, len(all), len(ids))
	}
	all = all[len(all)-len(ids):]
	out := make([][]accept.Token, len(ids))
	for i, raw := range all {
		var at map[int32]struct {
			Logprob float64 `json:"logprob"`
		}
		if err := json.Unmarshal(raw, &at); err != nil {
			return nil, fmt.Errorf("%w: place %d: %w", errListed, i, err)
		}
		if len(at) > plan.ThinTop {
			delete(at, ids[i])
		}
		if len(at) != plan.ThinTop {
			return nil, fmt.Errorf("%w: place %d: %d tokens, not %d", errListed, i, len(at), plan.ThinTop)
		}
		for id, t := range at {
			out[i] = append(out[i], accept.Token{ID: id, Logprob: bounded(t.Logprob)})
		}
	}
	return out, nil
}

// thinDraw is a token that the target drew, with the logprob that it was drawn with.
type thinDraw struct {
	accept.Token
	ends bool // the answer ends with it
}

// parseDraws reads the choices of an answer of one token each.
func parseDraws(body []byte) ([]thinDraw, error) {
	var a listedAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errListed, err)
	}
	if len(a.Choices) > plan.ThinDraws || len(a.Choices) == 0 {
		return nil, fmt.Errorf("%w: %d draws", errListed, len(a.Choices))
	}
	out := make([]thinDraw, 0, len(a.Choices))
	for i := range a.Choices {
		c := &a.Choices[i]
		if len(c.IDs) != 1 || c.IDs[0] < 0 || c.Logprobs == nil || len(c.Logprobs.Own) != 1 || c.Logprobs.Own[0] == nil || c.Finish != "stop" && c.Finish != "length" {
			return nil, fmt.Errorf("%w: draw %d of %d ids, ended by %.20q", errListed, i, len(c.IDs), c.Finish)
		}
		out = append(out, thinDraw{accept.Token{ID: c.IDs[0], Logprob: bounded(*c.Logprobs.Own[0])}, c.Finish == "stop"})
	}
	return out, nil
}
