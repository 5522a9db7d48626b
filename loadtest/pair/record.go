package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/drafts"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// Recording says which drafts of vLLM are recorded without their text: each draft model answers the same prompts, greedily, and
// the target says by every label what it thinks of each draft. The questions of each kind are a task, asked in many phrasings.
type Recording struct {
	Drafts    []Drafter
	Target    demo.Engine
	PerTask   int // prompts of each kind of question, at most
	Judged    int // one in so many prompts has labels in words, too; above 0
	MaxTokens int // of an answer
	Clients   int // requests in flight at an engine

	Out io.Writer                        // gets the lines of package drafts, as they come
	Say func(format string, args ...any) // a line of progress
}

// Drafter is a draft model, with the name by which its drafts are known.
type Drafter struct {
	Name string
	demo.Engine
}

// Phrasings of a question.
var (
	openings = []string{"", "Hello! ", "I have a question: ", "Please help me. ", "A short one: ", "For my homework: "}
	closings = []string{"", " Thank you.", " Answer briefly.", " I am curious.", " Be precise.", " That is all."}
)

// phrased are the prompts: as many of each kind as there are, perTask at most, the kinds mixed, in the same order in each run.
func phrased(perTask int) (all []question) {
	dice := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same prompts in each run
	byKind := map[string][]question{}
	var kinds []string
	for _, q := range allQuestions() {
		if byKind[q.kind] == nil {
			kinds = append(kinds, q.kind)
		}
		for _, o := range openings {
			for _, c := range closings {
				byKind[q.kind] = append(byKind[q.kind], question{kind: q.kind, text: o + q.text + c})
			}
		}
	}
	for _, kind := range kinds {
		of := byKind[kind]
		dice.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		all = append(all, of[:min(perTask, len(of))]...)
	}
	dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// recordChunk is how many prompts the engines answer before the target is asked for the labels.
const recordChunk = 256

// Record records drafts until all prompts have theirs, or ctx ends: what was written until then is whole. A draft at which an
// engine fails is left out, and told. It fails if nothing at all comes of a part of the prompts.
func (r *Recording) Record(ctx context.Context) error {
	if _, err := fmt.Fprintln(r.Out, drafts.Head); err != nil {
		return err
	}
	all, done, began := phrased(r.PerTask), 0, time.Now()
	for chunk := range slices.Chunk(all, recordChunk) {
		lines, failed := r.chunk(ctx, chunk)
		if ctx.Err() != nil {
			break
		}
		if len(lines) == 0 {
			return fmt.Errorf("no draft was recorded: %w", failed)
		}
		if _, err := io.WriteString(r.Out, strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
		done += len(lines)
		r.Say("%d drafts of %d after %s", done, len(all)*len(r.Drafts), time.Since(began).Round(time.Second))
		if failed != nil {
			r.Say("a failure: %v", failed)
		}
	}
	return nil
}

// chunk returns the lines of the drafts of some prompts, and the first failure.
func (r *Recording) chunk(ctx context.Context, list []question) (lines []string, failed error) {
	wrote := make([][]*written, len(r.Drafts)+1) // the last are the target's own
	for k := range wrote {                       // one engine after the other: threads of several wait for each other's
		engine := r.Target
		if k < len(r.Drafts) {
			engine = r.Drafts[k].Engine
		}
		wrote[k] = make([]*written, len(list))
		failed = errors.Join(failed, atOnce(len(list), r.Clients, func(i int) (err error) {
			wrote[k][i], err = r.write(ctx, engine, &list[i])
			return err
		}))
	}
	for k, d := range r.Drafts {
		of := make([]string, len(list))
		failed = errors.Join(failed, atOnce(len(list), r.Clients, func(i int) error {
			w, own := wrote[k][i], wrote[len(r.Drafts)][i]
			if w == nil || own == nil || !w.sound {
				return nil
			}
			made := drafts.Draft{Task: list[i].kind, Model: d.Name, Features: w.score.Features(), Score: float64(w.score.Score()), Judged: i%r.Judged == 0}
			err := r.label(ctx, &made, w, own.text)
			if err == nil {
				of[i] = made.Line()
			}
			return err
		}))
		lines = append(lines, slices.DeleteFunc(of, func(s string) bool { return s == "" })...)
	}
	return lines, failed
}

// atOnce does n pieces of work, so many at once, and returns the first error.
func atOnce(n, clients int, work func(i int) error) error {
	var all sync.WaitGroup
	next, failed := make(chan int), make(chan error, n)
	for range clients {
		all.Go(func() {
			for i := range next {
				if err := work(i); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	close(failed)
	return <-failed
}

// written is an answer with what it was scored by.
type written struct {
	question    []byte // its body, as a client asks it
	text        []byte
	prompt, ids []int32
	score       *accept.ScoreTracker
	sound       bool // it passes the checks that every draft of the gateway must pass
}

// write lets an engine answer.
func (r *Recording) write(ctx context.Context, e demo.Engine, q *question) (*written, error) {
	question := map[string]any{
		"model": e.Model, "messages": []map[string]string{{"role": "user", "content": q.text}}, "temperature": 0, "max_tokens": r.MaxTokens,
		"logprobs": true, "top_logprobs": topLogprobs,
	}
	plain, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	question["return_token_ids"] = true // which no client of the gateway may ask for
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	raw, err := post(ctx, e.URL+openai.Chat.Path(), body)
	if err != nil {
		return nil, err
	}
	var got struct {
		Prompt  []int32 `json:"prompt_token_ids"`
		Choices []struct {
			IDs      []int32 `json:"token_ids"`
			Finish   string  `json:"finish_reason"`
			Message  struct{ Content string }
			Logprobs struct{ Content []answer.Token }
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Choices) == 0 || len(got.Choices[0].IDs) == 0 || len(got.Prompt) == 0 {
		return nil, fmt.Errorf("an answer without token ids: %.200s, %w", raw, err)
	}
	c := &got.Choices[0]
	var s sample
	for _, t := range c.Logprobs.Content {
		s.addToken(t)
	}
	if s.score == nil {
		return nil, fmt.Errorf("an answer without logprobs: %.200s", raw)
	}
	w := &written{question: plain, text: []byte(c.Message.Content), prompt: got.Prompt, ids: c.IDs, score: s.score}
	w.sound = s.score.FinalVerdict(accept.Draft{Text: w.text, IDs: w.ids, Finish: c.Finish}).Accept
	return w, nil
}

// label asks the target for each label of a draft; own is its own answer.
func (r *Recording) label(ctx context.Context, d *drafts.Draft, w *written, own []byte) error {
	terms := openai.Terms{Model: r.Target.Model}
	ask := openai.ScoreQuestion{Terms: terms, Style: openai.ScoreCompletions, Prompt: w.prompt, Draft: w.ids, Top: 1}
	raw, err := post(ctx, r.Target.URL+ask.Path(), ask.Body(nil))
	if err != nil {
		return err
	}
	said, err := ask.Parse(raw)
	if err != nil {
		return err
	}
	span := make([]accept.TargetScore, len(w.ids))
	for i, s := range said.Tokens {
		span[i] = accept.TargetScore{Logprob: accept.Nats(s.Logprob), Top: accept.Nats(s.Top), First: s.TopID == w.ids[i], Alike: s.Alike}
		d.Gap = max(d.Gap, s.Top-s.Logprob)
	}
	d.Lenient, d.Exact = accept.CheckLenient(0, span).Pass, accept.CheckGreedy(span).Pass
	d.Same = accept.SameAnswer(w.text, own)
	d.Alike = d.Same
	if !d.Judged {
		return nil
	}
	if d.Judge, err = r.judge(ctx, w, nil); err == nil && !d.Same {
		d.Alike, err = r.judge(ctx, w, own)
	}
	return err
}

// judge asks the target in words whether a draft is right, or says what its own answer says. What is neither yes nor no is a no,
// as in audits.
func (r *Recording) judge(ctx context.Context, w *written, own []byte) (yes bool, err error) {
	const enough = 1 << 16
	q, err := openai.Scan(openai.Chat, w.question, openai.Limits{Depth: 99, Fields: 99, Messages: 99, N: 1, Answers: 1, Tokens: enough})
	if err != nil {
		return false, err
	}
	ask := openai.JudgeQuestion{Terms: openai.Terms{Model: r.Target.Model}, Request: q, Answer: w.text, Own: own}
	raw, err := post(ctx, r.Target.URL+openai.Chat.Path(), ask.Body(nil))
	if err != nil {
		return false, err
	}
	said, err := openai.ParseJudge(raw)
	if errors.Is(err, openai.ErrScores) {
		return false, nil
	}
	return said.Odds >= 0, err
}

// post sends a body, and returns that of the answer.
func post(ctx context.Context, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := recordClient.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, raw)
	}
	return raw, err
}

// recordClient keeps a connection for each request in flight.
var recordClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
