package accept

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// jsonSeeds begins the fuzzing: whole texts and broken ones.
var jsonSeeds = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, ` {"a" : [1, -2.5e+3, true, false, null, "x\u00e9\n"] } `, `12`, `-`, `-0`, `01`, `1.`, `1.e`, `1e`, `1e-`, `1E+07`,
	`"\`, `"\x"`, `"\u12g4"`, `"a` + "\n" + `"`, "\"\xff\"", `tru`, `trux`, `nulll`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `[1,]`, `{"a":1,}`, `[}`, `{]`, `}`, `1 2`, `[[[[`,
	"```json\n{}\n```", `Sure! {"a":1}`, `{"a":1} done`, `{'a':1}`, `-.5`, `+1`, `0x1`, `[1 2]`, `"a" "b"`, `{1:2}`,
	strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
}

// agree fails the test unless the state says of the text, written in two pieces, what
// encoding/json says of it.
func agree(t *testing.T, text []byte, split int) {
	t.Helper()
	var s JSONState
	ok := s.Write(text[:split])
	if more := s.Write(text[split:]); more && !ok {
		t.Fatalf("%q cut at %d was refused and taken again", text, split)
	} else if ok = more; s.complete() != json.Valid(text) {
		t.Fatalf("%q cut at %d: complete %t", text, split, s.complete())
	}
	// A NUL may stand nowhere, so encoding/json stops at the first byte that is wrong, or at it.
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal(append(slices.Clone(text), 0), &raw); !errors.As(err, &syntax) {
		t.Fatalf("%q with a NUL: %v", text, err)
	}
	broken := syntax.Offset <= int64(len(text))
	if ok == broken {
		t.Fatalf("%q cut at %d: taken %t, encoding/json says %v", text, split, ok, syntax)
	}
	if !broken {
		return
	}
	var each JSONState // and refused at the byte where encoding/json stops
	for i, c := range text {
		if !each.Write([]byte{c}) {
			if int64(i+1) != syntax.Offset {
				t.Fatalf("%q was refused at byte %d, by encoding/json at %d", text, i+1, syntax.Offset)
			}
			return
		}
	}
}

func TestAJSONStateAgreesWithEncodingJSONAtEverySplit(t *testing.T) {
	for _, text := range jsonSeeds {
		for split := range len(text) + 1 {
			agree(t, []byte(text), split)
		}
	}
}

func TestJSONMayNestAsDeepAsEncodingJSONAllows(t *testing.T) {
	for depth, want := range map[int]bool{deepest: true, deepest + 1: false} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		var s JSONState
		if ok := s.Write(text); ok != want || s.complete() != want || json.Valid(text) != want {
			t.Errorf("%d levels: taken %t, encoding/json %t", depth, ok, json.Valid(text))
		}
	}
}

func TestADraftThatOpensWithWordsIsRefusedAtItsFirstLetter(t *testing.T) {
	var s JSONState
	if !s.Write([]byte(" \n")) || s.Write([]byte("S")) || s.Write([]byte(`{"a":1}`)) || s.complete() {
		t.Error("it was taken")
	}
}

func TestReadingJSONAllocatesForItsDepthOnly(t *testing.T) {
	text := []byte(`{"a":[1,2.5,"x\u00e9",{"b":null}],"c":"` + strings.Repeat("long ", 200) + `"}`)
	var s JSONState
	s.Write(text[:1])
	if n := testing.AllocsPerRun(100, func() {
		r := s
		r.Write(text[1:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzJSONState(f *testing.F) {
	for _, text := range jsonSeeds {
		f.Add([]byte(text), uint(len(text)/2))
	}
	f.Fuzz(func(t *testing.T, text []byte, split uint) {
		agree(t, text, int(split%uint(len(text)+1)))
	})
}

func BenchmarkJSONState(b *testing.B) {
	text := []byte(`{"name":"Ada","tags":["a","b","c"],"n":[1,2,3.5e2],"note":"` + strings.Repeat("word ", 40) + `"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var s JSONState
		for at := 0; at < len(text); at += 4 {
			s.Write(text[at:min(at+4, len(text))])
		}
		if !s.complete() {
			b.Fatal("not complete")
		}
	}
}

// complete reports whether the text so far is JSON.
func (s *JSONState) complete() bool {
	return s.depth == 0 && (s.step == jsonAfter || s.step.endsNumber())
}
