package probe

import (
	"context"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
)

// longQuestions are questions whose answers are longer than what is asked for. Where an engine seems not to continue the answer to
// one, the next is asked: two tokens may be as likely.
var longQuestions = []string{
	"Describe a walk through a market town on a rainy morning.",
	"Explain how bread is baked.",
	"Count from one to thirty in words.",
}

// unlikelyText is what no model says by itself: whose answer begins with it repeats what it was given.
const unlikelyText = "Purple seventeen doorknob, said the"

// continues finds out what the engine answers that is asked to continue a text, by the very call of a continuation.
func (e *probeRun) continues(ctx context.Context) error {
	if e.noChat != "" {
		return nil
	}
	for _, question := range longQuestions {
		found, err := e.continued(ctx, question)
		if err != nil && !fails(err) {
			found, err = dialect.ContinueNot, nil
		}
		if err != nil {
			return err
		}
		if e.found.Continue = found; found != dialect.ContinueNot && found != dialect.ContinueUnknown {
			return nil
		}
	}
	return nil
}

// continued has the engine continue its own answer to a question, which it does as before. If the text comes once more, it
// may repeat what it is given, or answer anew: the answer to unlikelyText tells.
func (e *probeRun) continued(ctx context.Context, question string) (dialect.Continue, error) {
	whole, err := e.rest(ctx, question, "")
	if err != nil {
		return dialect.ContinueUnknown, err
	}
	cut := strings.LastIndexByte(whole[:len(whole)*2/3], ' ')
	if cut <= 0 {
		return dialect.ContinueUnknown, nil // it is too short, or all thoughts
	}
	got, err := e.rest(ctx, question, whole[:cut])
	found := continuationOf(whole[:cut], whole[cut:], got)
	if err == nil && found == dialect.Repeats {
		if got, err = e.rest(ctx, question, unlikelyText); !strings.HasPrefix(got, unlikelyText) {
			found = dialect.ContinueNot
		}
	}
	return found, err
}

// continuationOf says what an engine has answered that was asked to continue a text whose rest is known.
func continuationOf(text, rest, got string) dialect.Continue {
	again, repeats := strings.CutPrefix(got, text)
	switch {
	case agree(got, rest):
		return dialect.Continues
	case repeats && agree(again, rest):
		return dialect.Repeats
	}
	return dialect.ContinueNot
}

// agree reports whether two texts begin with the same few bytes, as far as both go. Some tokens later they may differ: an
// engine's results depend on how it computes them.
func agree(a, b string) bool {
	n := min(len(a), len(b), 8)
	return n > 2 && a[:n] == b[:n]
}

// rest has the engine continue the text of an answer, by at most answerTokens tokens.
func (e *probeRun) rest(ctx context.Context, question, text string) (string, error) {
	r, err := e.request(asked(question))
	if err != nil {
		return "", err
	}
	a, err := e.said(ctx, &engine.ContinueText{
		Terms: e.terms(), Request: r, Text: []byte(text), MaxTokens: answerTokens, Found: dialect.Continues, Probed: e.engine,
	})
	return a.text, err
}
