package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestATraceIsSentAsItIs(t *testing.T) {
	s := &Scenario{
		Duration: time.Minute, Prompts: []Prompt{{Name: "trace", Stream: true}},
		Given: []Given{
			{At: 0, Prompt: 30, Output: 7, Words: 0, Prefix: 1, Shared: 20},
			{At: 4 * time.Second, Prompt: 30, Output: 7, Words: 0, Prefix: 1, Shared: 20},
			{At: 6 * time.Second, Prompt: 50, Output: 9, Words: 2, Prefix: 1, Shared: 25},
			{At: 8 * time.Second, Prompt: 3, Output: 1, Words: 3},
		},
	}
	w, err := NewWorkload(s, &Case{Load: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := w.Start(2); at != 3*time.Second || !ok {
		t.Errorf("the third at %s, %t", at, ok)
	}
	if _, ok := w.Start(4); ok {
		t.Error("there is a fifth")
	}
	ask := func(i int) (r *Request, system, user string) {
		r = w.Session(i).Request()
		if !w.Session(i).IsLast() {
			t.Errorf("request %d has a next turn", i)
		}
		if r.Messages[0].Role == "system" {
			system = r.Messages[0].Content
		}
		return r, system, r.Messages[len(r.Messages)-1].Content
	}
	first, system, user := ask(0)
	if first.MaxTokens != 7 || !first.IgnoreEOS || !first.Stream || len(strings.Fields(system)) != 20 || len(strings.Fields(user)) != 10 {
		t.Errorf("%+v", first)
	}
	if _, again, same := ask(1); again != system || same != user || w.Words(1) != w.Words(0) {
		t.Error("a repeat is another text")
	}
	if _, longer, other := ask(2); !strings.HasPrefix(longer, system) || strings.HasPrefix(other, user) || w.Words(2) == w.Words(0) {
		t.Error("a shared prefix differs, or what follows does not")
	}
	if _, none, short := ask(3); none != "" || len(strings.Fields(short)) != 3 {
		t.Errorf("%q, %q", none, short)
	}
}
