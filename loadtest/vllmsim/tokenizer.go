package vllmsim

import (
	"sync"
	"unicode/utf8"
)

// Tokenizer is an invertible toy tokenizer: greedy longest match over a few thousand pieces, with byte tokens below
// them, so that decoding an encoding gives every string back. Special tokens are never produced from text.
type Tokenizer struct {
	pieces  []string
	class   []uint8
	byClass [numClasses][]int32
	ids     map[string]int32
	trie    [][256]int16 // node -> byte -> node, 0 = none
	term    []int32      // node -> id ending here, -1 = none
	node    []int16      // id -> its node, 0 for special tokens
	menus   []*menu      // id -> what may follow it in an answer
}

// defaultTokenizer is built once: every simulated model has the same vocabulary, as a draft and its target must.
var defaultTokenizer = sync.OnceValue(newTokenizer)

// DefaultTokenizer returns the tokenizer that all simulated models share. It is safe for concurrent use.
func DefaultTokenizer() *Tokenizer { return defaultTokenizer() }

func newTokenizer() *Tokenizer {
	t := &Tokenizer{ids: map[string]int32{}, trie: make([][256]int16, 1, 8192), term: []int32{-1}}
	t.buildVocab()
	for id, c := range t.class {
		t.byClass[c] = append(t.byClass[c], int32(id))
	}
	t.buildMenus()
	return t
}

func (t *Tokenizer) addSpecial(s string) {
	t.pieces = append(t.pieces, s)
	t.class = append(t.class, clsSpecial)
	t.node = append(t.node, 0)
}

// add appends a piece unless it is there already.
func (t *Tokenizer) add(s string, cls uint8) {
	if _, ok := t.ids[s]; ok || s == "" {
		return
	}
	n := int16(0)
	for i := range len(s) {
		next := t.trie[n][s[i]]
		if next == 0 {
			next = int16(len(t.trie))
			t.trie = append(t.trie, [256]int16{})
			t.term = append(t.term, -1)
			t.trie[n][s[i]] = next
		}
		n = next
	}
	id := int32(len(t.pieces))
	t.ids[s] = id
	t.term[n] = id
	t.pieces = append(t.pieces, s)
	t.class = append(t.class, cls)
	t.node = append(t.node, n)
}

func (t *Tokenizer) reclass(s string, cls uint8) { t.class[t.ids[s]] = cls }

// Size returns the number of ids: ids run from 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.pieces) }

// Encode returns the ids of text, without special tokens.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendEncode(make([]int32, 0, len(text)/3+1), text)
}

// AppendEncode appends the ids of text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string) []int32 {
	for i := 0; i < len(text); {
		id, end := int32(firstByte)+int32(text[i]), i+1
		for n, j := int16(0), i; j < len(text); {
			n = t.trie[n][text[j]]
			if n == 0 {
				break
			}
			j++
			if t.term[n] >= 0 {
				id, end = t.term[n], j
			}
		}
		dst = append(dst, id)
		i = end
	}
	return dst
}

// Decode returns the text of ids, special tokens included unless skipSpecial is set. Bytes that are no UTF-8 become
// U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var b []byte
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.pieces) && (!skipSpecial || id >= numSpecial) {
			b = append(b, t.pieces[id]...)
		}
	}
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

// extends reports whether some piece goes on after prev with byte b: then prev followed by b might encode differently.
func (t *Tokenizer) extends(prev int32, b byte) bool {
	n := t.node[prev]
	return n != 0 && t.trie[n][b] != 0
}

// detok turns ids into text as they come, holding back bytes of a character that is not complete yet.
type detok struct {
	t           *Tokenizer
	pend        []byte
	keepSpecial bool
}

// push returns the text that id completes: "" while a character is still open.
func (d *detok) push(id int32) string {
	if id < numSpecial {
		if d.keepSpecial {
			return d.t.pieces[id]
		}
		return ""
	}
	p := d.t.pieces[id]
	if len(d.pend) == 0 && (len(p) > 1 || p[0] < utf8.RuneSelf) {
		return p
	}
	d.pend = append(d.pend, p...)
	var out []byte
	for len(d.pend) > 0 && utf8.FullRune(d.pend) {
		r, n := utf8.DecodeRune(d.pend)
		out = utf8.AppendRune(out, r) // RuneError for a byte that fits nowhere
		d.pend = d.pend[n:]
	}
	if len(d.pend) == 0 {
		d.pend = d.pend[:0:0]
	}
	return string(out)
}
