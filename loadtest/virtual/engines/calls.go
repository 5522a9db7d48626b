package engines

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// prepare makes the engine's sequence of a call.
func (a *attempt) prepare() error {
	tok := vllmsim.DefaultTokenizer()
	switch c := a.call.(type) {
	case *engine.Relay:
		if a.form = inOnePiece; c.Request.Stream {
			a.form = plain
		}
		return a.generate(c.Terms, c.Request, nil, nil, c.Request.Limit())
	case *engine.Answer:
		return a.generate(c.Terms, c.Request, nil, nil, c.Request.Limit())
	case *engine.Draft:
		a.form = judged
		return a.generate(c.Terms, c.Request, nil, nil, c.Request.Limit())
	case *engine.ContinueIDs:
		a.form = ided
		return a.generate(c.Terms, c.Request, c.PromptIDs, c.IDs, c.MaxTokens)
	case *engine.ContinueText:
		a.form = ided
		return a.generate(c.Terms, c.Request, nil, tok.Encode(string(c.Text)), cmp.Or(c.MaxTokens, c.Request.Limit()))
	case *engine.Score:
		q := &c.Question
		a.seq = vllmsim.Seq{Prompt: slices.Concat(q.Prompt, q.Draft), NoCacheRead: true}
		a.schedule(q.Terms)
		return a.fits(1)
	case *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize:
		return nil // the front end answers
	}
	return &engine.Failure{Kind: engine.Rejected, Status: 400, Err: fmt.Errorf("virtual: a call %T cannot be run", a.call)}
}

// generate makes a sequence that ends by itself, behind limit tokens, 0 being without limit, or with
// the context. Without a prompt it is the request's.
func (a *attempt) generate(terms engine.Terms, r *openai.Request, prompt, behind []int32, limit int) error {
	p := a.backend.pool
	a.request = a.backend.fleet.Find(r)
	if prompt == nil {
		prompt = a.request.Prompt
	}
	if len(behind) > 0 {
		prompt = slices.Concat(prompt, behind)
	}
	a.behind, a.seq = behind, vllmsim.Seq{Prompt: prompt}
	if q := a.request; a.answers && !q.over {
		q.last, q.Answer = a, append(q.Answer[:0], behind...)
	}
	if err := a.fits(limit); err != nil {
		return err
	}
	if limit == 0 {
		limit = p.Context - len(prompt)
	}
	a.writer = vllmsim.NewWriter(p.Model, prompt, vllmsim.Sampling{
		Temperature: r.Temperature, MaxTokens: limit, IgnoreEOS: r.IgnoresEOS(),
		Seed: p.Model.SampleSeed(p.Def.Model, prompt, 0),
	})
	a.schedule(terms)
	return nil
}

// fits refuses what the context has no room for, as an engine does.
func (a *attempt) fits(limit int) error {
	room := a.backend.pool.Context - len(a.seq.Prompt)
	if room >= max(limit, 1) {
		return nil
	}
	return &engine.Failure{Kind: engine.Rejected, Status: 400, Err: fmt.Errorf("virtual: %d tokens in a context that has room for %d", max(limit, 1), room)}
}

// schedule tells the scheduler what it goes by.
func (a *attempt) schedule(terms engine.Terms) {
	a.seq.Source = source{a}
	if terms.Salt != "" {
		h := fnv.New64a()
		_, _ = io.WriteString(h, terms.Salt) // never fails
		a.seq.Salt = h.Sum64()
	}
	if terms.Priority != nil {
		a.seq.Priority = *terms.Priority
	}
}

// aside reports whether a call is answered without the engine behind the front end.
func (a *attempt) aside() bool { return a.seq.Source == nil }

// finish hands over an answer in one piece.
func (a *attempt) finish() {
	tok := vllmsim.DefaultTokenizer()
	if a.writer != nil {
		for i, id := range a.ids {
			a.deliverToken(id, i == 0)
		}
	}
	switch c := a.call.(type) {
	case *engine.Relay:
		*c.Into = a.whole(tok.Decode(a.ids, true))
	case *engine.Answer:
		chunk := openai.Chunk{Choices: 1, Plain: true, Text: []byte(tok.Decode(a.ids, true)), IDs: a.ids, Usage: a.used()}
		*c.Into = openai.DraftAnswer{Chunk: chunk, Finish: a.writer.Finish()}
	case *engine.Score:
		*c.Into = a.scores(&c.Question)
		if !a.answers {
			a.backend.Audits.Scored += len(a.seq.Prompt) - a.seq.Cached
			a.backend.Audits.Prefilled += len(a.seq.Prompt) - a.seq.Cached
		}
	case *engine.TokenizeText:
		*c.Into = tok.Encode(string(c.Text))
	case *engine.TokenizePrompt:
		*c.Into = a.backend.fleet.Find(c.Request).Prompt
	case *engine.Detokenize:
		*c.Into = []byte(tok.Decode(c.IDs, false))
	}
}

// whole is an answer in one piece as engines write it.
func (a *attempt) whole(text string) openai.Chunk {
	u := a.used()
	body := fmt.Appendf(nil, `{"object":"chat.completion","model":%s,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":%q}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		openai.Quote(a.backend.pool.Def.Model), openai.Quote(text), a.writer.Finish(), u.Prompt, u.Completion, u.Prompt+u.Completion)
	answer, err := openai.ParseAnswer(body)
	if err != nil {
		panic(err) // it was written here
	}
	return answer
}

// scores is what the target says of the ids that it was asked about.
func (a *attempt) scores(q *openai.ScoreQuestion) openai.Scores {
	f := a.backend.fleet
	out := openai.Scores{Tokens: make([]openai.Scored, 0, len(q.Draft)), Cached: a.seq.Cached}
	for _, c := range f.Score(q.Prompt, q.Draft) {
		out.Tokens = append(out.Tokens, openai.Scored{
			Logprob: float64(c.Logprob), TopID: c.ID, Top: float64(c.Top), Tops: c.Tops, Alike: c.Alike,
		})
	}
	return out
}
