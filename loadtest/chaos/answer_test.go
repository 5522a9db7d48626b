package chaos

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/foregate/foregate/loadtest/answer"
)

const (
	word   = `data: {"choices":[{"delta":{"content":"blue"},"finish_reason":null}]}` + "\n\n"
	finish = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
	broken = "event: error\ndata: {\"error\":{\"message\":\"gone\"}}\n\n"
)

func TestWhatBecameOfAStreamHasOneName(t *testing.T) {
	for _, c := range []struct{ name, stream, want string }{
		{"whole", word + finish + done, Answered},
		{"no end", word + finish, CutSilent},
		{"nothing", "", CutSilent},
		{"an error and a cut", word + broken, ErrorEvent},
		{"an error and then [DONE]", word + broken + done, DoneLies},
		{"[DONE] and then an error", word + finish + done + broken, DoneLies},
		{"two ends", word + finish + done + done, Twice},
		{"two finish reasons", word + finish + finish + done, Twice},
		{"no finish reason", word + done, Unfinished},
		{"no text", finish + done, Unfinished},
		{"no JSON", "data: {\n\n", Garbled},
	} {
		a := &answer.Answer{MaxText: maxAnswer}
		if got, detail := readStream(a, strings.NewReader(c.stream)); got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, detail, c.want)
		}
	}
}

func TestAStreamThatIsResetIsCutSilentlyUnlessAnErrorWasTold(t *testing.T) {
	reset := iotest.ErrReader(errors.New("connection reset"))
	for reported, want := range map[string]string{word: CutSilent, word + finish + done: CutSilent, word + broken: ErrorEvent} {
		a := &answer.Answer{MaxText: maxAnswer}
		if got, _ := readStream(a, io.MultiReader(strings.NewReader(reported), reset)); got != want {
			t.Errorf("%q and a reset: %s, want %s", reported, got, want)
		}
	}
}

func TestWhatBecameOfAWholeAnswerHasOneName(t *testing.T) {
	for body, want := range map[string]string{
		`{"choices":[{"message":{"content":"blue"},"finish_reason":"stop"}]}`: Answered,
		`{"choices":[{"message":{"content":"blue"},"finish_reason":null}]}`:   Unfinished,
		`{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`:     Unfinished,
		`{"choices":[]}`: Twice,
		`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"b"},"finish_reason":"stop"}]}`: Twice,
		`{"error":{"message":"no"}}`: ErrorEvent,
		`{"choices":[`:               Garbled,
		``:                           Garbled,
	} {
		a := &answer.Answer{MaxText: maxAnswer}
		if got, detail := readWhole(a, strings.NewReader(body)); got != want {
			t.Errorf("%s: %s (%s), want %s", body, got, detail, want)
		}
	}
}
