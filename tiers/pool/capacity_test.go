package pool

import "testing"

func TestWhoeverWaitsIsToldOfEachThingThatMayFreeCapacity(t *testing.T) {
	told := 0
	b := newBench(t, Options{Backends: []string{"http://a"}, OnCapacity: func() { told++ }})
	want := func(n int, after string) {
		t.Helper()
		if told != n {
			t.Errorf("told %d times after %s, want %d", told, after, n)
		}
	}
	b.give(0, works(0, 1))
	want(1, "a reading")
	l := pick(t, b.Pool, Demand{PromptTokens: 10})
	want(1, "a pick")
	l.FirstToken()
	want(2, "a first token")
	l.Done(5)
	want(3, "an end")
	l.Done(5)
	want(3, "an end that was told before")
}
