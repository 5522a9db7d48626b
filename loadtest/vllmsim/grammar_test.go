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

func TestMenusKeepTheSharesOfTheGrammar(t *testing.T) {
	tok := DefaultTokenizer()
	count := map[uint8]int{}
	own := 0
	for _, e := range tok.menus[tok.byClass[clsNoun][0]] {
		if e >= firstSubject {
			own++
			continue
		}
		count[tok.class[e]]++
	}
	// A noun is followed by eight classes' worth, a little of which went to spaces.
	for cls, eighths := range map[uint8]int{clsVerb: 3, clsPrep: 2, clsEnd: 2, clsComma: 1} {
		want := (menuSize - 125) / 8 * eighths
		if got := count[cls]; got < want-25 || got > want+25 {
			t.Errorf("class %d has %d entries, want about %d", cls, got, want)
		}
	}
	if got := count[clsSpace]; got != 125 || own > 0 {
		t.Errorf("%d spaces and %d nouns of the prompt after a noun", got, own)
	}
	for _, e := range tok.menus[tok.byClass[clsDet][0]] {
		if e >= firstSubject {
			own++
		}
	}
	if share := float64(own) / menuSize; share < 0.41 || share > 0.48 {
		t.Errorf("%.3f of what follows a determiner is the prompt's own nouns, want two thirds of two thirds", share)
	}
}
