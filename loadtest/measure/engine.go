package measure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/process"
)

// engine is one that is measured.
type engine struct {
	Options
	client  http.Client
	url     string // without a path
	model   string
	window  int  // tokens of a prompt with its answer
	tokens  int  // that the cache holds
	told    bool // the engine tells that
	answers int  // tokens of each answer of a batch
	batch   int  // the most that ran together
	seats   int  // as many run together, and no more; 0: not known
	seen    map[shape][]observation
}

// timeout of one request: an engine without a GPU computes a long batch for minutes.
const timeout = 10 * time.Minute

// do asks the engine.
func (e *engine) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // the status tells, too
		_ = resp.Body.Close()                                  // it was read
		return nil, fmt.Errorf("%s %s: %s: %s", method, e.url+path, resp.Status, words.Clip(string(text), 300))
	}
	return resp, nil
}

// page reads a page that the engine may not have.
func (e *engine) page(ctx context.Context, path string) []byte {
	resp, err := e.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()                // it was read
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<20)) // what is missing is not found
	return text
}

// meet asks which model there is, and how much it holds.
func (e *engine) meet(ctx context.Context) error {
	resp, err := e.do(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return fmt.Errorf("want the URL of an engine with the OpenAI API: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var models struct {
		Data []struct {
			ID     string `json:"id"`
			Window int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&models); err != nil || len(models.Data) == 0 {
		return fmt.Errorf("%s/v1/models: want a list of models: %w", e.url, cmp.Or(err, errors.New("it has none")))
	}
	var props struct { // of llama.cpp
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots int `json:"total_slots"`
	}
	_ = json.Unmarshal(e.page(ctx, "/props"), &props) // other engines have none
	e.model, e.window = models.Data[0].ID, cmp.Or(models.Data[0].Window, props.Settings.Window, 4096)
	e.answers, e.batch = inBatch, 1
	if e.window < 4*inBatch {
		return fmt.Errorf("%s: a context of %d tokens is too short to be measured: want %d or more", e.model, e.window, 4*inBatch)
	}
	e.tokens = cmp.Or(cacheTokens(string(e.page(ctx, "/metrics"))), props.Settings.Window*props.Slots)
	if e.told = e.tokens > 0; !e.told {
		e.tokens = 64 * e.window
	}
	return nil
}

var label = regexp.MustCompile(`(num_gpu_blocks|block_size)="(\d+)"`)

// cacheTokens is how many tokens the caches of an engine hold, by its metrics; 0: they do not tell.
func cacheTokens(page string) (tokens int) {
	m := process.Metrics(page)
	_ = m.Each("vllm:cache_config_info", func(labels string, _ float64) { // 0 where it is not there
		product := 1
		found := label.FindAllStringSubmatch(labels, 2)
		for _, f := range found {
			n, _ := strconv.Atoi(f[2]) // digits
			product *= n
		}
		if len(found) == 2 {
			tokens += product
		}
	})
	return cmp.Or(tokens, int(m.Sum("sglang:max_total_num_tokens")))
}

// stream is one answer.
type stream struct {
	sent   time.Time
	pieces []time.Time // when they came
	tokens int
}

// together sends n requests at once, each with other words, and waits for all answers.
func (e *engine) together(ctx context.Context, n, prompt, answer int) ([]stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all, done := make([]stream, n), make(chan error, n)
	for i := range n {
		body, err := json.Marshal(map[string]any{
			"model": e.model, "prompt": ids(prompt), "max_tokens": answer, "min_tokens": answer, "ignore_eos": true, "temperature": 0.8, "stream": true,
			"stream_options": map[string]any{"include_usage": true},
		})
		if err != nil {
			return nil, err
		}
		go func() {
			var err error
			if all[i], err = e.ask(ctx, body); err == nil && len(all[i].pieces) < 4 {
				err = fmt.Errorf("an answer of %d tokens came in %d pieces: want a stream of tokens", answer, len(all[i].pieces))
			}
			if err != nil {
				cancel(err)
			}
			done <- err
		}()
	}
	var failed error
	for range n {
		if err := <-done; err != nil && failed == nil {
			failed = err
		}
	}
	return all, failed
}

// ids are a prompt that no other begins with, of ids that are plain words in most vocabularies.
func ids(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1000 + rand.IntN(3000) //nolint:gosec // no secret
	}
	return out
}

// ask reads one stream.
func (e *engine) ask(ctx context.Context, body []byte) (s stream, err error) {
	s.sent = time.Now()
	resp, err := e.do(ctx, http.MethodPost, "/v1/completions", body)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	a := answer.Answer{OnEvent: func() { s.pieces = append(s.pieces, time.Now()) }}
	err = a.Stream(resp.Body)
	switch {
	case errors.Is(err, answer.ErrBadJSON):
		return s, fmt.Errorf("an event that is no JSON: %s", words.Clip(a.Bad, 100))
	case a.Failed != "":
		return s, fmt.Errorf("the engine failed: %s", words.Clip(a.Failed, 300))
	}
	if s.tokens = len(s.pieces); a.Usage != nil {
		s.tokens = cmp.Or(a.Usage.Completion, s.tokens)
	}
	return s, err
}

// note takes the time of a step while as many sequences decode as ran together, and returns how many that were: those that had
// begun when the first to end was half done.
func (e *engine) note(all []stream, prompt int) (together int) {
	end := slices.MinFunc(all, func(a, b stream) int { return a.last().Compare(b.last()) })
	half := end.pieces[0].Add(end.last().Sub(end.pieces[0]) / 2)
	var began, ended time.Time // of the time in which all of them decode
	var running []*stream
	for i := range all {
		if s := &all[i]; s.pieces[0].Before(half) {
			running = append(running, s)
			if s.pieces[0].After(began) {
				began = s.pieces[0]
			}
			if ended.IsZero() || s.last().Before(ended) {
				ended = s.last()
			}
		}
	}
	tokens, context, pieces := 0.0, 0.0, 0
	for _, s := range running {
		each := float64(s.tokens) / float64(len(s.pieces))
		for i, at := range s.pieces {
			if at.After(began) && !at.After(ended) {
				tokens, context, pieces = tokens+each, context+float64(prompt)+each*float64(i), pieces+1
			}
		}
	}
	if n := float64(len(running)); tokens > 4*n {
		s := shape{len(running), prompt, false}
		e.seen[s] = append(e.seen[s], observation{ended.Sub(began).Seconds() * n / tokens, [numCosts]float64{base: 1, perSeq: n, perKVToken: n * context / float64(pieces)}})
	}
	return len(running)
}

func (s *stream) last() time.Time { return s.pieces[len(s.pieces)-1] }
