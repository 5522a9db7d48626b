package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

// asker is where questions are put to: the gateway or an engine.
type asker struct {
	client *http.Client
	url    string
	model  string
	key    string // "": none
	tokens int    // of an answer at most
	scores bool   // ask for the logprobs of tokens, and score them as the gateway does
}

// engineAsker asks an engine without the gateway.
func engineAsker(e demo.Engine, client *http.Client, tokens int) (asker, error) {
	a := asker{client: client, url: e.URL, model: e.Model, tokens: tokens}
	if e.KeyFile == "" {
		return a, nil
	}
	key, err := os.ReadFile(e.KeyFile)
	a.key = strings.TrimSpace(string(key))
	return a, err
}

// sample is one question and what came of it.
type sample struct {
	prompt  int // its index
	text    string
	id      string               // of the request, of the gateway alone
	usage   *answer.Usage        // nil: not told
	pieces  int                  // of text
	first   time.Duration        // until the first piece of text; 0: there was none
	whole   time.Duration        // until the end
	receipt *receipt             // of the gateway alone
	tier    string               // where the answer came from
	score   *accept.ScoreTracker // of the tokens' logprobs; nil: not asked for, or not told
	engine  string               // what the engine calls itself; "": not told
	err     error
}

// reason is what the gateway said of the draft, or why there was none; "" without a gateway.
func (s *sample) reason() string {
	switch rc := s.receipt; {
	case rc == nil:
		return ""
	case rc.Verdict != nil:
		return rc.Verdict.Reason
	case rc.Plan != nil:
		return rc.Plan.Reason
	}
	return ""
}

// tokens are those of the answer: as the engine counted them, otherwise the pieces of the stream.
func (s *sample) tokens() int {
	if s.usage != nil {
		return s.usage.Completion
	}
	return s.pieces
}

// promptTokens are those of the prompt; 0 if the engine sent no usage.
func (s *sample) promptTokens() int {
	if s.usage != nil {
		return s.usage.Prompt
	}
	return 0
}

// ask puts one question at temperature 0 and reads the stream.
func (a asker) ask(ctx context.Context, question string) (s sample) {
	fields := map[string]any{
		"model": a.model, "messages": []map[string]string{{"role": "user", "content": question}},
		"temperature": 0, "max_tokens": a.tokens, "stream": true, "stream_options": map[string]bool{"include_usage": true},
	}
	if a.scores {
		fields["logprobs"], fields["top_logprobs"] = true, topLogprobs
	}
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // texts and numbers
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		s.err = err
		return s
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = []string{} // asked again where a server closed the connection meanwhile; it is not sent
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	began := time.Now()
	resp, err := a.client.Do(req)
	if err != nil {
		s.err = withoutAddress(err)
		return s
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	s.id = resp.Header.Get("X-Request-Id")
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // what it says is shown as far as it came
		s.err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
		return s
	}
	got := answer.Answer{OnToken: s.addToken, OnText: func(piece int) {
		if piece == 1 {
			s.first = time.Since(began)
		}
	}}
	s.err = withoutAddress(got.Stream(resp.Body))
	s.whole, s.text, s.usage, s.pieces, s.engine = time.Since(began), got.Text.String(), got.Usage, got.Pieces, got.Engine
	switch {
	case s.err != nil:
	case got.Failed != "":
		s.err = fmt.Errorf("the stream ends with %s", got.Failed)
	case got.Dones == 0:
		s.err = io.ErrUnexpectedEOF
	}
	return s
}

// topLogprobs is of how many likely tokens the gateway asks for with a draft.
const topLogprobs = 5

// addToken scores a token as the gateway scores those of a draft.
func (s *sample) addToken(t answer.Token) {
	if s.score == nil {
		s.score = accept.NewScoreTracker(accept.Config{Threshold: -accept.Nats(risk.Unreachable)})
	}
	top := make([]float64, len(t.Top))
	for i := range top {
		top[i] = t.Top[i].Logprob
	}
	s.score.Add(t.Logprob, top)
}

// askAll puts all questions, a number of them at a time, and returns what came, in the order of the questions. When ctx ends,
// the rest is left out.
func (a asker) askAll(ctx context.Context, list []question, clients int) []sample {
	found := make([]*sample, len(list))
	_ = atOnce(len(list), clients, func(i int) error { // a sample has its own error
		if ctx.Err() != nil {
			return nil
		}
		s := a.ask(ctx, list[i].text)
		s.prompt = i
		if ctx.Err() == nil {
			found[i] = &s
		}
		return nil
	})
	samples := make([]sample, 0, len(list))
	for _, s := range found {
		if s != nil {
			samples = append(samples, *s)
		}
	}
	return samples
}
