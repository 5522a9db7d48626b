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

func TestEveryPieceOfAHeadChangesTheKey(t *testing.T) {
	base := Head{Tenant: "t", RAG: "r", System: []byte("s"), First: []byte("f")}
	seen := map[Key]string{keyOf(base): "base"}
	for name, change := range map[string]func(*Head){
		"tenant":    func(h *Head) { h.Tenant = "u" },
		"no tenant": func(h *Head) { h.Tenant = "" },
		"RAG":       func(h *Head) { h.RAG = "q" },
		"no RAG":    func(h *Head) { h.RAG = "" },
		"system":    func(h *Head) { h.System = []byte("S") },
		"no system": func(h *Head) { h.System = nil },
		"first":     func(h *Head) { h.First = []byte("F") },
		"no first":  func(h *Head) { h.First = nil },
	} {
		h := base
		change(&h)
		if was, ok := seen[keyOf(h)]; ok {
			t.Errorf("%s has the key of %s", name, was)
		}
		seen[keyOf(h)] = name
	}
	// The first message is no part of the system prompt's key; all others are.
	other := base
	other.First = []byte("F")
	if base.Parts(100)[0] != other.Parts(100)[0] || base.Parts(100)[1] == other.Parts(100)[1] {
		t.Error("two conversations of one system prompt share it, and nothing else")
	}
}

func TestNoTwoHeadsReadAlike(t *testing.T) {
	texts := []string{"", "a", "b", "c", "ab", "bc", "abc", "a\x00", "\x00a", "\x01\x00\x00\x00\x00\x00\x00\x00a"}
	seen := map[Key]string{}
	for _, tenant := range texts {
		for _, rag := range texts {
			for _, system := range texts {
				for _, first := range texts[1:] {
					h := Head{Tenant: tenant, RAG: rag, System: []byte(system), First: []byte(first)}
					name := fmt.Sprintf("%q", []string{tenant, rag, system, first})
					if was, ok := seen[keyOf(h)]; ok {
						t.Fatalf("%s has the key of %s", name, was)
					}
					seen[keyOf(h)] = name
				}
			}
		}
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
