package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// aWhole draws an answer as an assembler may make it.
func aWhole(rng *rand.Rand) *Whole {
	w := &Whole{Kind: Kind(rng.IntN(2)), Usage: Usage{Prompt: rng.IntN(5000), Completion: 1 + rng.IntN(900)}}
	if rng.IntN(2) == 0 {
		w.Usage.Cached = w.Usage.Prompt
	}
	for range 1 + rng.IntN(3) {
		c := Choice{Text: someText(rng), Finish: []string{"stop", "length"}[rng.IntN(2)]}
		switch rng.IntN(4) {
		case 0:
			c.Stop = AppendQuote(nil, someText(rng))
		case 1:
			c.Stop = fmt.Append(nil, rng.IntN(128000))
		}
		if w.Kind == Chat {
			if c.Reasoning = someText(rng); len(c.Reasoning) > 0 {
				c.As = []string{asReasoning, asReasoningContent, asBoth}[rng.IntN(3)]
			}
			for i := range rng.IntN(3) {
				arguments, _ := json.Marshal(map[string]string{"q": string(someText(rng))})
				c.Calls = append(c.Calls, Call{ID: fmt.Sprintf("call-%d\"", i), Type: "function", Name: "find", Arguments: string(arguments)})
				c.Finish = finishTools
			}
		}
		c.Null = len(c.Text) == 0 && len(c.Calls)+len(c.Reasoning) > 0
		w.Choices = append(w.Choices, c)
	}
	return w
}

// someText draws a text, now and then an empty one, of words in several scripts and things that are no words.
func someText(rng *rand.Rand) []byte {
	words := []string{"the", "valve", "naïve", "水門は", "😀👩‍👩‍👧", "\"quoted\"", "\\", "\n\n", "\t", "\u2028", "<b>", "https://example.org/" + strings.Repeat("ab", 30), "\u0000", "\ufffd"}
	var b []byte
	for i := range rng.IntN(30) {
		if i > 0 && rng.IntN(4) > 0 {
			b = append(b, ' ')
		}
		b = append(b, words[rng.IntN(len(words))]...)
	}
	return b
}

// sameWhole compares answers.
func sameWhole(t *testing.T, what string, want, got *Whole) {
	t.Helper()
	if !reflect.DeepEqual(want, got) { // cmp is a hundred times slower
		t.Fatalf("%s: %s", what, cmp.Diff(want, got))
	}
}

// assembled puts together what a stream's frames hold.
func assembled(t *testing.T, kind Kind, stream []byte, end *Ending) (*Whole, error) {
	t.Helper()
	a := NewAssembler(kind, 1<<20)
	events := NewEventReader(bytes.NewReader(stream), 1<<20)
	for {
		data, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != Done {
			a.Chunk(bytes.Clone(data))
		}
	}
	if end != nil {
		a.End(*end)
	}
	return a.Whole()
}

func TestAnAnswerIsTheSameInEveryForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 11))
	for range 300 {
		w := aWhole(rng)
		back, err := ParseWhole(w.Append(nil))
		if err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
		sameWhole(t, "encoded", w, back)

		f := NewFramer(w.Kind, "id", "llama-3", 7)
		a := NewAssembler(w.Kind, 1<<20)
		body := f.Whole(nil, w, []byte(`{"tier":"draft"}`))
		if !json.Valid(body) {
			t.Fatalf("%s is no JSON", body)
		}
		a.Body(body)
		got, err := a.Whole()
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		sameWhole(t, "as JSON", w, got)

		for _, withUsage := range []bool{true, false} {
			stream := f.WholeStream(nil, w, []byte(`{"tier":"draft"}`), withUsage)
			end := &Ending{}
			if !withUsage {
				end.Usage = w.Usage
			}
			if got, err = assembled(t, w.Kind, stream, end); err != nil {
				t.Fatalf("%s: %v", stream, err)
			}
			sameWhole(t, "as a stream", w, got)
		}
	}
}

func TestAPlainAnswerHasTheFramesItHadTheFirstTime(t *testing.T) {
	for _, kind := range []Kind{Chat, Completion} {
		f := NewFramer(kind, "id", "llama-3", 7)
		text, extra := []byte("It is blue."), []byte(`{"tier":"draft"}`)
		a := NewAssembler(kind, len(text)+6)
		a.Text(text[:4])
		a.Text(text[4:])
		e := Ending{Finish: "stop", Stop: []byte(`"END"`), Usage: Usage{Prompt: 2, Completion: 3}, Extra: extra}
		a.End(e)
		w, err := a.Whole()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(f.Whole(nil, w, extra)), string(f.Body(nil, text, e)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, withUsage := range []bool{true, false} {
			if got, want := string(f.WholeStream(nil, w, extra, withUsage)), string(f.Finish(f.Role(nil), text, e, withUsage)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	}
}

func TestPiecesAreWholeWordsAndCharacters(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"The gate opens when the water behind it is as high as before.": {"The gate opens when the water", " behind it is as high as before."},
		"one\ntwo":                    {"one\ntwo"},
		strings.Repeat("水", 25):       {strings.Repeat("水", 10), strings.Repeat("水", 10), strings.Repeat("水", 5)},
		" " + strings.Repeat("x", 40): {" " + strings.Repeat("x", 31), strings.Repeat("x", 9)},
	} {
		var got []string
		for rest := []byte(text); len(rest) > 0; {
			n := pieceEnd(rest)
			got, rest = append(got, string(rest[:n])), rest[n:]
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestAnEncodedAnswerThatWasCutIsNone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := aWhole(rng).Append(nil)
		for i := range b {
			if _, err := ParseWhole(b[:i]); err == nil {
				t.Fatalf("cut at %d of %d: read", i, len(b))
			}
		}
		for _, other := range [][]byte{append(bytes.Clone(b), '0'), append([]byte{wholeVersion - 1}, b[1:]...), {wholeVersion, 2}} {
			if _, err := ParseWhole(other); err == nil {
				t.Fatalf("%q: read", other)
			}
		}
	}
}
