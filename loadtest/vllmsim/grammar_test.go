package vllmsim

import (
	"slices"
	"testing"
)

// distinct lists the ids on a menu, one noun standing for those that an answer keeps to.
func (t *Tokenizer) distinct(m *menu) []int32 {
	seen := map[int32]bool{}
	var out []int32
	for _, e := range m {
		id := int32(e)
		if e >= firstSubject {
			id = t.byClass[clsNoun][0]
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

func TestNothingOnAMenuFusesWithTheTokenBefore(t *testing.T) {
	tok := DefaultTokenizer()
	for id := int32(firstByte); id < int32(tok.Size()); id++ {
		if tok.class[id] == clsOther && tok.menus[id] == tok.menus[tok.ids["hello"]] && id%7 > 0 {
			continue // nothing about it is special; a seventh of these will do
		}
		for _, next := range tok.distinct(tok.menus[id]) {
			if got := tok.Encode(tok.pieces[id] + tok.pieces[next]); !slices.Equal(got, []int32{id, next}) {
				t.Errorf("%q and %q encode to %v, not to %v", tok.pieces[id], tok.pieces[next], got, []int32{id, next})
			}
		}
	}
}
