package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// secret is a seal key's, for tests.
func secret(of byte) []byte { return bytes.Repeat([]byte{of}, 32) }

func mustSealer(t testing.TB, keys ...SealKey) *Sealer {
	t.Helper()
	s, err := NewSealer(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keyNo is a key of its own for every number.
func keyNo(n int) Key {
	return KeyOf(&Parts{Kind: "/v1/chat/completions", Tenant: "acme", Route: "chat", Target: "big@1", Tier: "auto",
		Request: fmt.Appendf(nil, `{"messages":[{"content":"question %d","role":"user"}]}`, n)})
}

// words are of a small language: text that compresses about as answers do.
var words = strings.Fields(`the a of and to in is that it for as with on be by at from this which or an are not
	answer question model request cache tenant value number system because therefore however example first second
	latency throughput memory token sequence distribution probability`)

// text is n bytes of words.
func text(r *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		b = append(append(b, words[r.IntN(len(words))]...), ' ')
	}
	return b[:n]
}

// entryNo is an entry of its own for every number, with an answer of n bytes.
func entryNo(number, n int) *Entry {
	r := rand.New(rand.NewPCG(uint64(number), 6))
	return &Entry{
		Created: time.UnixMilli(1_790_000_000_000 + int64(number)), Tier: "mixed", Acceptance: "accepted; by=margin; n=12", Finish: "stop",
		Prompt: r.IntN(4000), Accepted: r.IntN(300), Target: r.IntN(300), USD: r.Float64() / 100,
		Answer: append(fmt.Appendf(nil, "%06d ", number), text(r, n)...),
	}
}

// refused fails the test unless the error is one that Open may give.
func refused(t testing.TB, err error, what string) {
	t.Helper()
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
		t.Errorf("%s: error %v, want ErrDamaged or ErrForeign", what, err)
	}
}

func TestWhatWasSealedOpensToTheSame(t *testing.T) {
	s := mustSealer(t, SealKey{"2026-11", secret(1)})
	for _, n := range []int{0, 1, 50, 300, 2000, 100_000} {
		e := entryNo(n, n)
		value := s.Seal(keyNo(1), e)
		got, err := s.Open(keyNo(1), value, len(e.Answer))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%d bytes: (-sealed +opened)\n%s", n, diff)
		}
		clear(value)
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%d bytes: the entry shares memory with the value", n)
		}
	}
}

func TestSealKeysThatCannotBeUsedAreRefused(t *testing.T) {
	tests := map[string][]SealKey{
		"cache: seal key 2 has no id":                               {{"a", secret(1)}, {"", secret(2)}},
		"cache: id of seal key 1 has 65 bytes, more than 64":        {{strings.Repeat("k", 65), secret(1)}},
		`cache: seal key id "a" is there twice`:                     {{"a", secret(1)}, {"b", secret(2)}, {"a", secret(3)}},
		`cache: secret of seal key "a" has 31 bytes, fewer than 32`: {{"a", make([]byte, 31)}},
	}
	for want, keys := range tests {
		if _, err := NewSealer(keys...); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	mustSealer(t, SealKey{strings.Repeat("k", 64), secret(1)})
}

func TestTheSaltChangesWithTheKeyThatSealsAlone(t *testing.T) {
	s := mustSealer(t, SealKey{"a", secret(1)})
	first := s.Salt("acme")
	must(t, s.Replace(SealKey{"a", secret(1)}, SealKey{"b", secret(2)}))
	if s.Salt("acme") != first {
		t.Error("it changed with a key that only opens")
	}
	must(t, s.Replace(SealKey{"b", secret(2)}, SealKey{"a", secret(1)}))
	second := s.Salt("acme")
	must(t, s.Replace(SealKey{"b", secret(2)}))
	if second == first || s.Salt("acme") != second {
		t.Error("it does not go by the key that seals")
	}
}

func TestAValueOfAnotherVersionIsForeign(t *testing.T) {
	s := mustSealer(t)
	value := s.Seal(keyNo(1), entryNo(1, 100))
	for what, change := range map[string]func(value []byte){
		"another version": func(v []byte) { v[len(magic)]++ },
		"another magic":   func(v []byte) { v[0] = 'F' },
		"an id":           func(v []byte) { v[headerLen-1] = 1 },
	} {
		v := bytes.Clone(value)
		change(v)
		if _, err := s.Open(keyNo(1), v, 1000); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: error %v, want ErrForeign", what, err)
		}
	}
	entry := appendEntry(nil, entryNo(1, 100))
	entry[0]++
	if _, err := s.Open(keyNo(1), s.seal(keyNo(1), entry), 1000); !errors.Is(err, ErrForeign) {
		t.Errorf("another version of the entry: error %v, want ErrForeign", err)
	}
}

func TestWhatIsLargerThanAskedForIsDamagedAndNotMade(t *testing.T) {
	s, k := mustSealer(t), keyNo(1)
	for _, answer := range [][]byte{make([]byte, 1<<20), entryNo(1, 3000).Answer, secret(1)} {
		e := entryNo(1, 0)
		e.Answer = answer
		value := s.Seal(k, e)
		if _, err := s.Open(k, value, len(answer)); err != nil {
			t.Errorf("an answer of %d bytes within %d: %v", len(answer), len(answer), err)
		}
		if _, err := s.Open(k, value, len(answer)-1); !errors.Is(err, ErrDamaged) {
			t.Errorf("an answer of %d bytes within %d: error %v, want ErrDamaged", len(answer), len(answer)-1, err)
		}
	}

	bomb := append([]byte{compressed}, binary.AppendUvarint(nil, 1<<30)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := unpack(bomb, 1<<20); !errors.Is(err, ErrDamaged) {
		t.Errorf("a text that says it has 1 GiB: error %v, want ErrDamaged", err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 1<<20 {
		t.Errorf("a text that says it has 1 GiB made %d bytes", made)
	}
}

// FuzzOpen reads foreign bytes as a value and, for whoever has the secret may have sealed
// anything, as an entry that was sealed. Nothing is sealed or compressed in it, for random
// nonces and pools would make the same input take other ways; and the seeds are small, for the time to minimise one grows with
// the square of its length.
func FuzzOpen(f *testing.F) {
	s, k := mustSealer(f, SealKey{"a", secret(1)}), keyNo(1)
	for _, n := range []int{0, 10, 50} {
		f.Add(s.Seal(k, entryNo(n, n)))
		f.Add(appendEntry(nil, entryNo(n, n)))
	}
	const maxSize = 1 << 12
	f.Fuzz(func(t *testing.T, foreign []byte) {
		if _, err := s.Open(k, foreign, maxSize); err != nil {
			refused(t, err, "as a value")
		}
		e, err := parseEntry(foreign, maxSize)
		if err != nil {
			refused(t, err, "as an entry")
			return
		}
		if len(e.Answer) > maxSize {
			t.Errorf("an answer of %d bytes, more than %d", len(e.Answer), maxSize)
		}
		again, err := parseEntry(appendEntry(nil, e), maxSize)
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("what opened does not encode to the same: %+v and %+v, error %v", e, again, err)
		}
	})
}
