package tiers

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/strategy"
)

// TestAnAnswerIsWholeWhenAllItsChoicesHaveFinished: a backend is lost, or says that it is done, in a stream of several
// choices. The client is told an end only if every choice has come to one.
func TestAnAnswerIsWholeWhenAllItsChoicesHaveFinished(t *testing.T) {
	const (
		first = `{"choices":[{"index":0,"text":"one","finish_reason":"stop"}]}`
		more  = `{"choices":[{"index":1,"text":"tw"}]}`
		last  = `{"choices":[{"index":1,"text":"o","finish_reason":"length"}]}`
		both  = `{"choices":[{"index":0,"text":"one","finish_reason":"stop"},{"index":1,"text":"two","finish_reason":"stop"}]}`
		usage = `{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}`
	)
	for name, tc := range map[string]struct {
		events []string
		done   bool // the backend says that it is
		tokens int  // of a whole answer, as it is told; 0 is that it is not whole
	}{
		"lost in the second choice":              {[]string{first, more}, false, 0},
		"lost before the second choice":          {[]string{first}, false, 0},
		"done within the second choice":          {[]string{first, more, usage}, true, 0},
		"one choice ends twice":                  {[]string{first, first}, false, 0},
		"aborted beside one that has ended":      {[]string{strings.Replace(both, `"stop"`, `"abort"`, 1), usage}, true, 0},
		"all ended, and lost before the usage":   {[]string{first, more, last}, false, 3},
		"all ended in one chunk, and lost there": {[]string{both}, false, 2},
		"all ended":                              {[]string{first, more, last, usage}, true, 3},
		"all ended, and no usage was told":       {[]string{first, more, last}, true, 3},
		"text behind the end is no part of it":   {[]string{both, `{"choices":[{"index":1,"text":"lost"}]}`, usage}, true, 3},
		"the engine ignores n":                   {[]string{first, usage}, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			backend := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				say(w, tc.events...)
				if !tc.done {
					panic(http.ErrAbortHandler)
				}
				say(w, openai.Done)
			})
			for _, asked := range []string{`"prompt":["a","b"]`, `"prompt":[[1],[2]]`, `"prompt":"a","n":2`} {
				got, rc, err := scriptedRig(t, backend.URL, backend.URL).ask(openai.Completion, plan.Target,
					`{"model":"m",`+asked+`,"stream":true,"stream_options":{"include_usage":true}}`)
				if broken := (*strategy.BrokenError)(nil); tc.tokens == 0 && !errors.As(err, &broken) && !isFailure(err) {
					t.Errorf("%s: told as whole: done %v, %+v; %v", asked, got.done, rc, err)
				}
				if tc.tokens > 0 && (err != nil || !got.done || got.usage.Completion != tc.tokens || strings.Contains(got.text, "lost")) {
					t.Errorf("%s: done %v, usage %+v, %v", asked, got.done, got.usage, err)
				}
			}
		})
	}
}

// isFailure reports whether the answer failed before its first byte.
func isFailure(err error) bool {
	_, ok := errors.AsType[*dispatch.ExhaustedError](err)
	return ok
}

func TestAJSONAnswerWithAChoiceThatWasAbortedIsNotServed(t *testing.T) {
	backend := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[{"index":0,"text":"a","finish_reason":"abort"},{"index":1,"text":"b","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}`))
	})
	_, _, err := scriptedRig(t, backend.URL, backend.URL).ask(openai.Completion, plan.Target, `{"model":"m","prompt":["a","b"]}`)
	if f, ok := errors.AsType[*engine.Failure](err); !ok || f.Kind != engine.Aborted {
		t.Errorf("an answer with an aborted choice: %v", err)
	}
}
