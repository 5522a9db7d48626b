// Package quality says what the target would have thought of an answer. Only a
// simulator can be asked that for free: its target's distributions are known.
//
// An answer is identical when the target alone, asked the same, would have said
// the same to the token. An accepted draft is wrong when the target does not stand
// by it by the lenient rule (accept.CheckLenient), the rule that later modes check
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
	tok           *vllmsim.Tokenizer
	draft, target voice
}

// voice is a model under the name that it is served by, which decides its draws.
type voice struct {
	name  string
	model *vllmsim.Model
}

// NewJudge returns the judge of a case's answers in the language of seed.
func NewJudge(seed uint64, c *loadtest.Case) *Judge {
	j := &Judge{tok: vllmsim.DefaultTokenizer(), target: voice{c.Target.Model, vllmsim.NewModel(seed, 0)}}
	if c.Draft != nil {
		j.draft = voice{c.Draft.Model, vllmsim.NewDraft(seed, c.Draft.Divergence, c.Draft.Blind)}
	}
	return j
}

// CheckText is Check for an answer of which only the text is known. A text may hide
// tokens (an end that was ignored, half a character at a limit), so the answer is
// compared as text, and a draft's tokens are those that it must have written.
func (j *Judge) CheckText(q *loadtest.Request, text string, out *loadtest.Outcome) {
	list := make([]vllmsim.Message, len(q.Messages))
	for i, m := range q.Messages {
		list[i] = vllmsim.Message(m)
	}
	prompt := j.tok.Chat(list)
	out.Checked = true
	_, out.Identical = j.writes(j.target, q, prompt, text)
	if out.Identical || out.Tier != "draft" && out.Tier != "mixed" {
		return
	}
	ids, ok := []int32(nil), false
	if out.Tier == "draft" {
		ids, ok = j.writes(j.draft, q, prompt, text)
	}
	if !ok {
		ids = j.tok.Encode(text)
	}
	out.WrongAnswer = !j.stands(q, prompt, ids)
	out.Wrong = out.WrongAnswer && out.Acceptance == "accepted" && out.Tier == "draft"
}

// writes reports whether a model, asked alone, says text, and with which tokens.
func (j *Judge) writes(v voice, q *loadtest.Request, prompt []int32, text string) (ids []int32, same bool) {
	w := j.writer(v, q, prompt)
	for {
		id, done := w.Next()
		ids = append(ids, id)
		rest, ok := strings.CutPrefix(text, w.Text())
		if !ok {
			return nil, false
		}
		if text = rest; done {
			return ids, text == ""
		}
	}
}

// Answer is what the target itself says, with its end token, if it comes to one.
func (j *Judge) Answer(q *loadtest.Request, prompt []int32) (ids []int32) {
	w := j.writer(j.target, q, prompt)
	for done := false; !done; {
		var id int32
		id, done = w.Next()
		ids = append(ids, id)
	}
	return ids
}

func (j *Judge) writer(v voice, q *loadtest.Request, prompt []int32) *vllmsim.Writer {
	limit := q.MaxTokens
	if limit == 0 {
		limit = math.MaxInt32
	}
	return vllmsim.NewWriter(v.model, prompt, vllmsim.Sampling{
		Temperature: q.Temperature, MaxTokens: limit, IgnoreEOS: q.IgnoreEOS,
		Seed: v.model.SampleSeed(v.name, prompt, 0),
	})
}

// Check fills in what is known of the answer's quality. ids is the answer with its
// end token, if it came to one.
func (j *Judge) Check(q *loadtest.Request, prompt, ids []int32, out *loadtest.Outcome) {
	out.Checked = true
	if out.Identical = out.Tier == "target"; out.Identical {
		return // it is the target's own answer
	}
	out.Identical = j.identical(q, prompt, ids)
	out.WrongAnswer = !out.Identical && !j.stands(q, prompt, ids)
	out.Wrong = out.WrongAnswer && (out.Acceptance == "accepted" || out.Unverified) && out.Tier == "draft"
}

// identical asks the target the same and compares token by token.
func (j *Judge) identical(q *loadtest.Request, prompt, ids []int32) bool {
	w := j.writer(j.target, q, prompt)
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
	span := accept.LenientCheck{Temperature: q.Temperature}
	j.choices(prompt, ids, span.Temperature > 0, func(c Choice) { span.Add(c.TargetScore) })
	return span.Passes()
}

// Choice is the target's score of one position, with its own choice there.
type Choice struct {
	accept.TargetScore
	ID int32 // the first choice
}

// Choices are what the target says of the tokens of ids, which follow prompt.
func (j *Judge) Choices(prompt, ids []int32) []Choice {
	out := make([]Choice, 0, len(ids))
	j.choices(prompt, ids, true, func(c Choice) { out = append(out, c) })
	return out
}

func (j *Judge) choices(prompt, ids []int32, sampled bool, visit func(Choice)) {
	var room []float64
	if sampled {
		room = make([]float64, 0, len(ids)*accept.MaxTopLogprobs)
	}
	j.target.model.Score(prompt, ids, func(i int, d *vllmsim.Dist) bool {
		best := d.Argmax()
		c := Choice{ID: best, TargetScore: accept.TargetScore{
			Logprob: accept.Nats(d.LogProb(ids[i])), Top: accept.Nats(d.LogProb(best)), First: best == ids[i],
		}}
		if sampled {
			n := len(room)
			room = appendTops(room, d)
			c.Tops = room[n:]
		}
		if !c.First {
			c.Alike = alike(j.tok, best, ids[i])
		}
		visit(c)
		return true
	})
}

// maxTop is how many alternatives of a token the judges of drafts see.
const maxTop = 5

// Track has the draft written to its end, whatever is thought of it, and says what a judge makes of it, and whether the
// target would stand by it.
func (j *Judge) Track(q *loadtest.Request, prompt []int32, cfg accept.Config) (judge *accept.ScoreTracker, stands bool) {
	judge = accept.NewScoreTracker(cfg)
	w := j.writer(j.draft, q, prompt)
	var ids []int32
	top := make([]float64, 0, maxTop)
	for done := false; !done; {
		var id int32
		id, done = w.Next()
		ids = append(ids, id)
		top = top[:0]
		if judge.NeedsTopLogprobs() {
			top = w.Top(top, maxTop)
		}
		judge.Add(w.Logprob(), top)
	}
	return judge, j.stands(q, prompt, ids)
}

func alike(t *vllmsim.Tokenizer, a, b int32) bool {
	return strings.EqualFold(strings.TrimSpace(t.Decode([]int32{a}, false)), strings.TrimSpace(t.Decode([]int32{b}, false)))
}

// appendTops appends the logprobs of the likeliest tokens, as many as the gateway asks an engine for.
func appendTops(dst []float64, d *vllmsim.Dist) []float64 {
	for _, c := range d.Top[:min(accept.MaxTopLogprobs, len(d.Top))] {
		dst = append(dst, math.Log(c.P))
	}
	return dst
}
