package prefix

import (
	"fmt"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// keyOf is the key of a head's longest part.
func keyOf(h Head) Key {
	parts := h.Parts(100)
	if parts[1].Key != 0 {
		return parts[1].Key
	}
	return parts[0].Key
}

func TestNoTwoHeadsReadAlike(t *testing.T) {
	texts := []string{"", "a", "b", "c", "ab", "bc", "abc", "a\x00", "\x00a", "\x01\x00\x00\x00\x00\x00\x00\x00a"}
	seen := map[Key]string{}
	for i := range 10_000 { // each in each place, but none of nothing in the last two
		h := Head{Tenant: texts[i%10], RAG: texts[i/10%10], System: []byte(texts[i/100%10]), First: []byte(texts[i/1000])}
		if len(h.System)+len(h.First) == 0 {
			continue
		}
		name := fmt.Sprintf("%q", []string{h.Tenant, h.RAG, string(h.System), string(h.First)})
		if was, ok := seen[keyOf(h)]; ok {
			t.Fatalf("%s has the key of %s", name, was)
		}
		seen[keyOf(h)] = name
	}
	// The first message is no part of the system prompt's key; all others are.
	base, other := Head{System: []byte("s"), First: []byte("f")}.Parts(100), Head{System: []byte("s"), First: []byte("F")}.Parts(100)
	if base[0] != other[0] || base[1] == other[1] {
		t.Error("two conversations of one system prompt share it, and nothing else")
	}
}

func TestPartsAreTheSystemPromptByItsShareAndTheWhole(t *testing.T) {
	h := Head{Tenant: "t", System: make([]byte, 300), First: make([]byte, 50)}
	if p := h.Parts(1200); p[0].Share != 0.25 || p[1].Share != 1 || p[0].Key == 0 || p[1].Key == 0 {
		t.Errorf("got %+v", p)
	}
	if p := h.Parts(0); p[0].Share != 1 {
		t.Errorf("a prompt of no length: %+v", p)
	}
	if p := (Head{First: []byte("x")}).Parts(10); p[0].Share != 1 || p[0].Key == 0 || p[1] != (Part{}) {
		t.Errorf("without a system prompt: %+v", p)
	}
	if p := (Head{Tenant: "t", RAG: "r"}).Parts(10); p != [MaxParts]Part{} {
		t.Errorf("of nothing: %+v", p)
	}
}

// hashes are the backends of a pool, as the pool names them.
func hashes(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = xxhash.Sum64String(fmt.Sprintf("10.0.0.%d-8000", i))
	}
	return out
}

func homeOf(key Key, backends []uint64) int {
	home := 0
	for i := range backends {
		if Rendezvous(key, backends[i]) > Rendezvous(key, backends[home]) {
			home = i
		}
	}
	return home
}

func TestABackendThatComesOrGoesMovesOneInNKeysAndNoOthers(t *testing.T) {
	const keys = 10_000
	for _, n := range []int{2, 3, 8, 50} {
		all := hashes(n + 1)
		moved := 0
		for k := range Key(keys) {
			without, with := homeOf(k, all[:n]), homeOf(k, all)
			if without == with {
				continue
			}
			moved++
			if with != n {
				t.Fatalf("n=%d: key %d moved from %d to %d, which both stay", n, k, without, with)
			}
		}
		fair := keys / float64(n+1)
		if math.Abs(float64(moved)-fair) > 4*math.Sqrt(fair) {
			t.Errorf("n=%d: %d keys moved, want about %.0f", n, moved, fair)
		}
	}
}
