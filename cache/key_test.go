package cache

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
)

// changes change one part each.
var changes = []struct {
	part string
	do   func(p *Parts, r *rand.Rand)
}{
	{"kind", func(p *Parts, r *rand.Rand) { p.Kind = short(r) }},
	{"tenant", func(p *Parts, r *rand.Rand) { p.Tenant = short(r) }},
	{"epoch", func(p *Parts, r *rand.Rand) { p.Epochs.All = epoch(r) }},
	{"tenant epoch", func(p *Parts, r *rand.Rand) { p.Epochs.Tenant = epoch(r) }},
	{"route epoch", func(p *Parts, r *rand.Rand) { p.Epochs.Route = epoch(r) }},
	{"route", func(p *Parts, r *rand.Rand) { p.Route = short(r) }},
	{"draft", func(p *Parts, r *rand.Rand) { p.Draft = short(r) }},
	{"target", func(p *Parts, r *rand.Rand) { p.Target = short(r) }},
	{"tier", func(p *Parts, r *rand.Rand) { p.Tier = short(r) }},
	{"RAG", func(p *Parts, r *rand.Rand) { p.RAG = short(r) }},
	{"request", func(p *Parts, r *rand.Rand) { p.Request = []byte(short(r)) }},
}

// short is of few letters, so that parts often look like each other's ends; among them are
// bytes that a length is written with.
func short(r *rand.Rand) string {
	b := make([]byte, r.IntN(5))
	for i := range b {
		b[i] = "ab:\x00\x01\x02"[r.IntN(6)]
	}
	return string(b)
}

// epoch is near zero, near the end, or bytes that a short part may have.
func epoch(r *rand.Rand) uint64 {
	return []uint64{uint64(r.IntN(4)), ^uint64(r.IntN(4)), 0x6162 << (8 * r.IntN(7))}[r.IntN(3)]
}

func TestRequestsThatDifferInOnePartNeverShareAnEntry(t *testing.T) {
	pairs := whole(1_000_000)
	var differ atomic.Int64
	each(len(changes)*10, func(seed int) {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		for range pairs/(len(changes)*10) + 1 {
			var p Parts
			for _, change := range changes {
				change.do(&p, r)
			}
			q, change := p, changes[r.IntN(len(changes))]
			for reflect.DeepEqual(p, q) {
				change.do(&q, r)
			}
			a, b := KeyOf(&p), KeyOf(&q)
			if a.name == b.name || a.seal == b.seal {
				t.Errorf("they differ in their %s and share a key:\n%+v\n%+v", change.part, p, q)
			}
			if (a.tenant == b.tenant) != (p.Tenant == q.Tenant) {
				t.Errorf("tenants %q and %q share a hash, or one has two", p.Tenant, q.Tenant)
			}
			differ.Add(1)
		}
	})
	t.Logf("%d pairs", differ.Load())
}

// TestWhereAPartEndsIsInTheKey moves the borders of the parts through the same bytes in
// every way there is.
func TestWhereAPartEndsIsInTheKey(t *testing.T) {
	const bytes = "abcabcab"
	names, seals := map[[32]byte]string{}, map[[32]byte]string{}
	var split func(parts []string, left string)
	split = func(parts []string, left string) {
		if len(parts) < 7 {
			for n := range len(left) + 1 {
				split(append(parts, left[:n]), left[n:])
			}
			return
		}
		k := KeyOf(&Parts{Kind: parts[0], Tenant: parts[1], Route: parts[2], Draft: parts[3], Target: parts[4], Tier: parts[5], RAG: parts[6], Request: []byte(left)})
		this := fmt.Sprintf("%q and %q", parts, left)
		if other, ok := names[k.name]; ok {
			t.Errorf("%s and %s share a name", this, other)
		}
		if other, ok := seals[k.seal]; ok {
			t.Errorf("%s and %s share a seal", this, other)
		}
		names[k.name], seals[k.seal] = this, this
	}
	split(nil, bytes)
	if want := 6435; len(names) != want {
		t.Errorf("%d ways to split %q, want %d", len(names), bytes, want)
	}
}
