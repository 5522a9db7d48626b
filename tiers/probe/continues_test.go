package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// repeater is an engine that answers each question with the same words, and text as a test says.
type repeater struct {
	after func(text, rest string) (string, error) // what it answers behind a text of its own, or of another's
	asked []engine.ContinueText
	waits []time.Duration // how long it may be silent, before its answer and within
}

const tale = "It is a long way to the market, and the rain does not end."

// Open implements [engine.Upstream].
func (r *repeater) Open(_ context.Context, a *engine.Attempt) (engine.Stream, error) {
	c := a.Call.(*engine.ContinueText)
	r.asked, r.waits = append(r.asked, *c), append(r.waits, a.FirstByteTimeout, a.IdleTimeout)
	answer := tale
	if len(c.Text) > 0 {
		var err error
		if answer, err = r.after(string(c.Text), strings.TrimPrefix(tale, string(c.Text))); err != nil {
			return nil, err
		}
	}
	return &words{left: strings.SplitAfter(answer, " ")}, nil
}

// words is a stream of them.
type words struct{ left []string }

func (*words) Close()         {}
func (*words) Buffered() bool { return false }
func (w *words) Next(engine.Want) (*openai.Chunk, error) {
	if len(w.left) == 0 {
		return nil, io.EOF
	}
	word := w.left[0]
	w.left = w.left[1:]
	return &openai.Chunk{Text: []byte(word)}, nil
}

func TestAnEngineIsAskedHowItContinues(t *testing.T) {
	busy := &engine.Failure{Kind: engine.Backpressure}
	for name, tc := range map[string]struct {
		after func(text, rest string) (string, error)
		want  dialect.Continue
		err   error
	}{
		"the rest alone":            {func(_, rest string) (string, error) { return rest, nil }, dialect.Continues, nil},
		"other words, some later":   {func(_, rest string) (string, error) { return rest[:9] + "otherwise", nil }, dialect.Continues, nil},
		"the text and the rest":     {func(text, rest string) (string, error) { return text + rest, nil }, dialect.Repeats, nil},
		"the answer anew":           {func(string, string) (string, error) { return tale, nil }, dialect.ContinueNot, nil},
		"another answer":            {func(string, string) (string, error) { return "Sure! What else?", nil }, dialect.ContinueNot, nil},
		"the rest without a blank":  {func(_, rest string) (string, error) { return strings.TrimSpace(rest), nil }, dialect.ContinueNot, nil},
		"the text in other letters": {func(text, rest string) (string, error) { return strings.ToUpper(text) + rest, nil }, dialect.ContinueNot, nil},
		"nothing":                   {func(string, string) (string, error) { return "", nil }, dialect.ContinueNot, nil},
		"it refuses":                {func(string, string) (string, error) { return "", &engine.Failure{Kind: engine.Rejected, Status: 400} }, dialect.ContinueNot, nil},
		"it is busy":                {func(string, string) (string, error) { return "", busy }, dialect.ContinueUnknown, busy},
	} {
		e := repeater{after: tc.after}
		run := probeRun{asker: &asker{upstream: &e, model: "big", engine: dialect.OpenAI, timeout: time.Minute}, missing: map[string]string{}}
		if err := run.continues(t.Context()); run.found.Continue != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v; want %q", name, run.found.Continue, err, tc.want)
		}
		if slices.ContainsFunc(e.waits, func(wait time.Duration) bool { return wait != time.Minute }) {
			t.Errorf("%s: it may be silent for %v", name, e.waits) // a busy engine is asked as long as it goes on
		}
		for _, c := range e.asked {
			if c.Model != "big" || c.MaxTokens > 16 || c.Found != dialect.Continues || c.Probed != dialect.OpenAI || !bytes.HasPrefix([]byte(tale), c.Text) && string(c.Text) != unlikelyText {
				t.Errorf("%s: it was asked %+v", name, c)
			}
		}
	}
}
