package upstream

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	messageStart = `data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n"
	messageDelta = `data: {"type":"content_block_delta","delta":{"text":"word"}}` + "\n\n"
	messageStop  = `data: {"type":"message_delta","usage":{"output_tokens":7}}` + "\n\n"
)

// passed asks for what passes through.
func passed() *engine.Forward {
	return &engine.Forward{Path: "/v1/messages", Body: []byte(`{"model":"big","messages":[]}`), Into: new(engine.Forwarded)}
}

// copied reads an answer that passes through: its bytes and the pieces that they came in.
func copied(s engine.Stream) (all []byte, pieces int, err error) {
	for {
		c, err := s.Next(engine.WantTokens)
		if err == io.EOF {
			return all, pieces, nil
		}
		if err != nil {
			return all, pieces, err
		}
		all = append(all, c.Raw...)
		pieces++
	}
}

func TestAnAnswerPassesThroughByteByByte(t *testing.T) {
	stream := messageStart + strings.Repeat(messageDelta, 5000) + messageStop
	for name, tc := range map[string]struct {
		do     http.HandlerFunc
		want   string
		passed engine.Forwarded
	}{
		"JSON": {func(w http.ResponseWriter, _ *http.Request) {
			write(w, "application/json; charset=utf-8", `{"usage":{"prompt_tokens":7}}`)
		}, `{"usage":{"prompt_tokens":7}}`, engine.Forwarded{Type: "application/json", Length: 29, Used: openai.Usage{Prompt: 7}}},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { write(w, "application/json", "") }, "", engine.Forwarded{Type: "application/json"}},
		"large JSON": {func(w http.ResponseWriter, _ *http.Request) {
			write(w, "application/json", strings.Repeat(" ", 3*maxRead)+"{}")
		}, strings.Repeat(" ", 3*maxRead) + "{}", engine.Forwarded{Type: "application/json", Length: -1}},
		"a stream": {func(w http.ResponseWriter, _ *http.Request) { write(w, "text/event-stream", stream) }, stream,
			engine.Forwarded{Type: "text/event-stream; charset=utf-8", Length: -1, Events: true, Used: openai.Usage{Prompt: 25, Completion: 7}}},
		"a stream that tells nothing": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "identity")
			write(w, "text/event-stream; charset=latin1", strings.Repeat(messageDelta, 20))
		}, strings.Repeat(messageDelta, 20), engine.Forwarded{Type: "text/event-stream; charset=utf-8", Length: int64(20 * len(messageDelta)), Events: true, Used: openai.Usage{Completion: 20}}},
	} {
		call := passed()
		s := open(t, newClient(t, Options{}), at(serve(t, tc.do), call))
		got, _, err := copied(s)
		s.Close()
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(tc.want), err)
		}
		if *call.Into != tc.passed {
			t.Errorf("%s: %+v, want %+v", name, *call.Into, tc.passed)
		}
	}
}

// TestAnAnswerOfAToldLengthIsReadAtOnce: the read that fills the buffer also finds the end, so that nobody waits for it.
func TestAnAnswerOfAToldLengthIsReadAtOnce(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, "application/json", `{"data":[]}`) })
	s := open(t, newClient(t, Options{}), at(url, passed()))
	if !s.Buffered() {
		t.Error("it is still to be read")
	}
	if all, pieces, err := copied(s); err != nil || pieces != 1 || len(all) != 11 {
		t.Errorf("%q in %d pieces, %v", all, pieces, err)
	}
}

func TestWhatPassesThroughIsPassedOnAsItComes(t *testing.T) {
	more := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		say(w, "1")
		<-more
		say(w, "2")
	})
	s := open(t, newClient(t, Options{}), at(url, passed()))
	c, err := s.Next(engine.WantTokens)
	if err != nil || string(c.Raw) != "data: 1\n\n" || s.Buffered() {
		t.Fatalf("%+v, %v", c, err)
	}
	close(more)
	if rest, _, err := copied(s); err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestAPassedStreamThatBreaksOffIsCountedByWhatCame(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, messageStart+strings.Repeat(messageDelta, 40))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	call := passed()
	s := open(t, newClient(t, Options{}), at(url, call))
	_, _, err := copied(s)
	if f := failureOf(t, err); f.Kind != engine.Cut || call.Into.Used != (openai.Usage{Prompt: 25, Completion: 40}) {
		t.Errorf("%v, %+v", f, call.Into.Used)
	}
}

func TestWhoLeavesAPassedStreamOwesWhatWasMade(t *testing.T) {
	const events = 5000 // several reads' worth
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, "text/event-stream", strings.Repeat(messageDelta, events))
	})
	call := passed()
	a := at(url, call)
	a.MaxAnswer = 100000
	s := open(t, newClient(t, Options{}), a)
	c, err := s.Next(engine.WantTokens)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Count(c.Raw, []byte("\n\n")); call.Into.Used.Completion != want || want == 0 || want == events {
		t.Errorf("%+v, want %d", call.Into.Used, want)
	}
	s.Close()
}

func TestWhatPassesThroughOwesNoMoreThanItCan(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, "application/json", `{"usage":{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}}`)
	})
	for answer, want := range map[int]int{0: 0, 50: 50} {
		call := passed()
		a := at(url, call)
		a.MaxPrompt, a.MaxAnswer = 77, answer
		s := open(t, newClient(t, Options{}), a)
		_, _, err := copied(s)
		s.Close()
		if err != nil || call.Into.Used != (openai.Usage{Prompt: 77, Completion: want}) {
			t.Errorf("%+v, %v", call.Into.Used, err)
		}
	}
}
