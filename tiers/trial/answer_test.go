package trial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/verify"
)

// told is an observer that counts what it is told.
type told struct{ text, chunks, bodies, ends int }

func (o *told) Text([]byte)       { o.text++ }
func (o *told) Chunk([]byte)      { o.chunks++ }
func (o *told) Body([]byte)       { o.bodies++ }
func (o *told) End(openai.Ending) { o.ends++ }

func TestWhatATargetIsAskedAboutAnAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		finish, stop string
		includes     bool
		want         verify.Draft
		ok           bool
	}{
		"the model ended it":       {"stop", "", false, verify.Draft{Text: []byte("one two"), Ended: true}, true},
		"with a null reason":       {"stop", "null", false, verify.Draft{Text: []byte("one two"), Ended: true}, true},
		"a stop string ended it":   {"stop", `"\n\n"`, false, verify.Draft{Text: []byte("one two"), StopWord: []byte("\n\n")}, true},
		"one that the client gets": {"stop", `"two"`, true, verify.Draft{Text: []byte("one two")}, true},
		"the id of a token did":    {"stop", `17`, false, verify.Draft{Text: []byte("one two")}, true},
		"the limit ended it":       {"length", "", false, verify.Draft{Text: []byte("one two"), AtLimit: true}, true},
		"a filter did":             {"content_filter", "", false, verify.Draft{}, false},
		"nobody did":               {"", "", false, verify.Draft{}, false},
	} {
		var a answer
		a.Text([]byte("one "))
		a.Text([]byte("two"))
		a.End(openai.Ending{Finish: c.finish, Stop: []byte(c.stop)})
		got, ok := a.draft(c.includes)
		if ok != c.ok || ok && !cmp.Equal(c.want, got) {
			t.Errorf("%s: %+v, %v", what, got, ok)
		}
	}
}

func TestAnAnswerInOnePieceIsRead(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"choices":[{"index":0,"message":{"role":"assistant","content":"It rains."},"finish_reason":"stop"}]}`:                                                                                     true,
		`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`: false,
		`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}]}`:             false,
		`no JSON`: false,
	} {
		var a answer
		a.Body([]byte(body))
		a.End(openai.Ending{})
		if d, got := a.draft(false); got != ok || ok && string(d.Text) != "It rains." {
			t.Errorf("%s: %+v, %v", body, d, got)
		}
	}
}

func TestAnAnswerThatIsNotTextOrTooLongIsNotAskedAbout(t *testing.T) {
	next := &told{}
	for what, say := range map[string]func(*answer){
		"not text": func(a *answer) { a.Text([]byte("x")); a.Chunk([]byte("{}")) },
		"too long": func(a *answer) {
			a.Text([]byte("x"))
			a.Text([]byte(strings.Repeat("y", maxText)))
			a.Text([]byte("z"))
		},
	} {
		a := answer{next: next}
		say(&a)
		a.End(openai.Ending{Finish: "stop"})
		if _, ok := a.draft(false); ok || len(a.text) > maxText {
			t.Errorf("%s: asked", what)
		}
	}
	if *next != (told{text: 4, chunks: 1, ends: 2}) {
		t.Errorf("the other observer: %+v", *next)
	}
}
