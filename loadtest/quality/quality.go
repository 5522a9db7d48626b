// Package quality says what the target would have thought of an answer. Only a
// simulator can be asked that for free: its target's distributions are known.
//
// An answer is identical when the target alone, asked the same, would have said
// the same to the token. An accepted draft is wrong when the target does not stand
// by it by the lenient rule (accept.Balanced), the rule that later modes check
// drafts with.
package quality

import (
	"math"
	"strings"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
)

// Judge compares answers with those of a target. It is safe for concurrent use.
type Judge struct {
	seed  uint64
	name  string
	model *vllmsim.Model
	tok   *vllmsim.Tokenizer
}

// NewJudge returns the judge of the target that serves model name in the language
// of seed.
func NewJudge(seed uint64, name string) *Judge {
	return &Judge{seed: seed, name: name, model: vllmsim.NewModel(seed, 0), tok: vllmsim.DefaultTokenizer()}
}

// CheckText is Check for an answer of which only the text is known.
func (j *Judge) CheckText(q *loadtest.Request, text string, out *loadtest.Outcome) {
	list := make([]vllmsim.Message, len(q.Messages))
	for i, m := range q.Messages {
		list[i] = vllmsim.Message(m)
	}
	ids := j.tok.Encode(text)
	if out.DraftTokens+out.TargetTokens == len(ids)+1 {
		ids = append(ids, vllmsim.EndOfTurn) // counted, but without text
	}
	j.Check(q, j.tok.Chat(list), ids, out)
}

// Check fills in what is known of the answer's quality. ids is the answer with its
// end token, if it came to one.
func (j *Judge) Check(q *loadtest.Request, prompt, ids []int32, out *loadtest.Outcome) {
	out.Checked = true
	if out.Tier == "target" {
		out.Identical = true // it is the target's own answer
		return
	}
	out.Identical = j.identical(q, prompt, ids)
	if out.Acceptance == "accepted" && out.Tier == "draft" {
		out.Wrong = !out.Identical && !j.stands(q, prompt, ids)
	}
}

// identical asks the target the same and compares token by token.
func (j *Judge) identical(q *loadtest.Request, prompt, ids []int32) bool {
	limit := q.MaxTokens
	if limit == 0 {
		limit = math.MaxInt32
	}
	w := vllmsim.NewWriter(j.model, prompt, vllmsim.Sampling{
		Temperature: q.Temperature, MaxTokens: limit, IgnoreEOS: q.IgnoreEOS,
		Seed: vllmsim.SampleSeed(j.seed, j.name, j.model, prompt, 0),
	})
	for i, id := range ids {
		own, done := w.Next()
		if own != id {
			return false
		}
		if done {
			return i == len(ids)-1
		}
	}
	return false // it would have gone on
}

// stands applies the lenient rule.
func (j *Judge) stands(q *loadtest.Request, prompt, ids []int32) bool {
	span := accept.Lenient{Leniency: accept.Balanced(q.Temperature > 0)}
	j.model.Score(prompt, ids, func(i int, d *vllmsim.Dist) bool {
		best := d.Argmax()
		o := accept.Opinion{Logprob: accept.Nats(d.LogProb(ids[i])), Top: accept.Nats(d.LogProb(best))}
		if span.Typical {
			o.Entropy = entropy(d)
		}
		if best != ids[i] {
			o.Alike = alike(j.tok, best, ids[i])
		}
		span.Add(o)
		return true
	})
	return span.Stands()
}

func alike(t *vllmsim.Tokenizer, a, b int32) bool {
	return strings.EqualFold(strings.TrimSpace(t.Decode([]int32{a}, false)), strings.TrimSpace(t.Decode([]int32{b}, false)))
}

// entropy is that of the whole distribution, in nats.
func entropy(d *vllmsim.Dist) float64 {
	h := 0.0
	for _, c := range d.Top {
		h -= c.P * math.Log(c.P)
	}
	if d.Tail > 0 {
		h -= float64(d.Vocab-len(d.Top)) * d.Tail * math.Log(d.Tail)
	}
	return h
}
