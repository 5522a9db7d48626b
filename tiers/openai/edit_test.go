package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestASpliceIsWhatApplyWrites(t *testing.T) {
	for _, size := range []int{0, minCut - 10, minCut, 3 * minCut} {
		for large := range maxCuts + 3 {
			body := `{ "model":"m" , "messages":[{"role":"user","content":"hi"}],"echo":false`
			for i := range large {
				body += fmt.Sprintf(`, "x%d" : "%s"`, i, strings.Repeat("y", size))
			}
			r := scanChat(t, body+` ,"stop":null}`)
			for _, edits := range [][]Edit{
				nil, {{"model", []byte(`"big"`)}}, {{"x0", []byte("1")}, {"x1", nil}, {"x0", []byte("2")}}, {{"new", bytes.Repeat([]byte("1"), size+1)}},
				{{"model", nil}, {"messages", nil}, {"stop", nil}, {"x0", nil}, {"x1", nil}, {"x2", nil}, {"x3", nil}, {"x4", nil}},
			} {
				want := strings.TrimPrefix(string(r.Apply([]byte("before"), edits...)), "before")
				p := r.Splice(edits...)
				if got := string(bytes.Join(p.Append(nil), nil)); got != want || string(p.Bytes()) != want || p.Len() != len(want) {
					t.Fatalf("%d members of %d bytes, %d edits: %d bytes %.300q, want %.300q", large, size, len(edits), p.Len(), got, want)
				}
				if n := len(p.Append(nil)); n > 2*maxCuts+1 || size >= minCut && large == 1 && len(edits) < 2 && n != 3 {
					t.Errorf("%d members of %d bytes in %d pieces", large, size, n)
				}
			}
		}
	}
}

func TestAPieceOfABodyIsNotShared(t *testing.T) {
	text := strings.Repeat("y", 2*minCut)
	r := scanChat(t, `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`)
	p := r.Splice(Edit{"model", []byte(`"big"`)})
	whole := p.Bytes()
	clear(r.Body)
	if !strings.Contains(string(whole), text) {
		t.Error("a body in one piece changes with the client's")
	}
}
