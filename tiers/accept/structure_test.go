package accept

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// prose is n bytes of text that no check objects to.
func prose(n int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s number %d was seen near the %s. ", []string{"A heron", "One fox", "The owl", "Every hare"}[i*7%4], i*i+3, []string{"river", "mill", "old gate", "barn", "road"}[i*3%5])
	}
	return []byte(b.String()[:n])
}

func TestAStructureThatDoesNotHoldIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		draft Draft
		want  string
	}{
		"prose":                           {Draft{Text: prose(3000), Finish: "stop"}, ""},
		"no end":                          {Draft{Text: prose(100)}, ReasonCut},
		"a content filter":                {Draft{Text: prose(100), Finish: "content_filter"}, ReasonCut},
		"nothing":                         {Draft{Finish: "stop"}, ReasonEmpty},
		"white space":                     {Draft{Text: []byte(" \n\t\u3000"), Finish: "stop"}, ReasonEmpty},
		"a call":                          {Draft{Calls: 1, Finish: "tool_calls"}, ""},
		"a call where one was demanded":   {Draft{Calls: 1, Finish: "stop"}, ""},
		"a call's finish without a call":  {Draft{Text: prose(100), Finish: "tool_calls"}, ReasonCut},
		"a call that was cut":             {Draft{Calls: 1, Finish: "length"}, ReasonCut},
		"a call in a JSON mode":           {Draft{Calls: 1, Finish: "tool_calls", WantJSON: true}, ""},
		"JSON in a fence":                 {Draft{Text: []byte("```json\n{}\n```"), Finish: "stop", WantJSON: true}, ReasonInvalid},
		"text that says the same, no ids": {Draft{Text: bytes.Repeat([]byte("It is what it is. "), 40), Finish: "stop"}, ReasonRepetition},
	} {
		if got := c.draft.fault(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// count is the ids from..from+n-1.
func count(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(from + i)
	}
	return out
}

func TestADraftThatLoopsIsRefusedNearItsEnd(t *testing.T) {
	for gram := minGram; gram <= maxGram; gram++ {
		phrase := count(7, gram)
		loop := slices.Concat(count(1000, 50), slices.Repeat(phrase, maxRepeats))
		if !Repeats(loop) || Repeats(loop[:len(loop)-1]) {
			t.Errorf("a phrase of %d tokens: %t with its end, %t without", gram, Repeats(loop), Repeats(loop[:len(loop)-1]))
		}
		if !Repeats(slices.Concat(loop, count(5000, 20))) {
			t.Errorf("a phrase of %d tokens is not seen behind other words", gram)
		}
		if Repeats(slices.Concat(loop, count(5000, nearEnd))) {
			t.Errorf("a phrase of %d tokens far from the end counts", gram)
		}
		if Repeats(slices.Concat(slices.Repeat(phrase, maxRepeats-1), []int32{1}, phrase)) {
			t.Errorf("a phrase of %d tokens that was broken off counts", gram)
		}
	}
	if Repeats(nil) || Repeats(slices.Repeat(count(7, maxGram+1), 8)) {
		t.Error("no ids, or a phrase too long, count")
	}
	if !Repeats(slices.Repeat([]int32{3}, minGram*maxRepeats)) {
		t.Error("one token over and over does not count")
	}
}

func TestALoopIsSeenWhileItIsWritten(t *testing.T) {
	ids := slices.Concat(count(1000, 300), slices.Repeat(count(7, 5), maxRepeats), count(5000, 10))
	var l RepetitionDetector
	for i, id := range ids {
		if got, want := l.Add(id) > 0, i == 319; got != want {
			t.Errorf("token %d: %t", i, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { l.Add(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOnlyTheEndOfATextIsSqueezed(t *testing.T) {
	loop := bytes.Repeat([]byte("and then it rained "), 60)
	for name, c := range map[string]struct {
		text []byte
		want bool
	}{
		"a loop":            {loop, true},
		"words, then loop":  {slices.Concat(prose(900), loop), true},
		"a loop, then more": {slices.Concat(loop, prose(400)), false},
		"short":             {loop[:compressedTail-1], false},
		"prose":             {prose(4000), false},
		"a table":           {[]byte(strings.Repeat("| 12 | x |\n| 7 | yes |\n", 3) + string(prose(500))), false},
	} {
		if got := IsCompressible(c.text); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzStructure: no draft makes a check panic; and looking at a loop as it is written says the same as looking at its end.
func FuzzStructure(f *testing.F) {
	f.Add([]byte("say"), []byte{1, 2, 3})
	f.Add(prose(700), bytes.Repeat([]byte{1, 2, 3, 4}, 5))
	f.Fuzz(func(t *testing.T, text, ids []byte) {
		d := Draft{Text: text, Finish: "stop"}
		for _, id := range ids {
			d.IDs = append(d.IDs, int32(id))
		}
		if d.fault() == "" && (len(bytes.TrimSpace(text)) == 0 || Repeats(d.IDs)) {
			t.Fatalf("%q passed", text)
		}
		var l RepetitionDetector
		looped := false
		for _, id := range d.IDs[max(len(ids)-nearEnd, 0):] {
			looped = l.Add(id) > 0 || looped
		}
		if looped != Repeats(d.IDs) {
			t.Fatalf("ids %v", ids)
		}
	})
}
