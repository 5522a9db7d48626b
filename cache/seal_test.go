package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"
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
func refused(t testing.TB, err error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
		t.Errorf("%s: error %v, want ErrDamaged or ErrForeign", fmt.Sprintf(what, args...), err)
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
		piece, err := s.OpenBytes(keyNo(1), "chunk 1", s.SealBytes(keyNo(1), "chunk 1", e.Answer), len(e.Answer))
		if err != nil || !bytes.Equal(piece, e.Answer) {
			t.Errorf("%d bytes: piece opens to %d bytes, error %v", n, len(piece), err)
		}
	}
}

func TestCompressionIsUsedOnlyWhereItPays(t *testing.T) {
	s := mustSealer(t)
	noise := make([]byte, 4000)
	r := rand.NewChaCha8([32]byte{6})
	r.Read(noise)
	overhead := headerLen + sealedBy + leastPlain
	if n := len(s.SealBytes(keyNo(1), "", noise)); n != len(noise)+overhead {
		t.Errorf("4000 bytes of noise take %d bytes, want %d", n, len(noise)+overhead)
	}
	if n := len(s.SealBytes(keyNo(1), "", text(rand.New(rand.NewPCG(1, 1)), 4000))); n > 3000 {
		t.Errorf("4000 bytes of text take %d bytes, want 3000 at most", n)
	}
	if n := len(s.SealBytes(keyNo(1), "", nil)); n != overhead {
		t.Errorf("nothing takes %d bytes, want %d", n, overhead)
	}
}

func BenchmarkSeal2kB(b *testing.B) {
	s, e := mustSealer(b, SealKey{"2026-11", secret(1)}), entryNo(1, 2000)
	b.SetBytes(2000)
	b.ReportAllocs()
	var value []byte
	for b.Loop() {
		value = s.Seal(keyNo1, e)
	}
	b.ReportMetric(float64(len(value)), "bytes/value")
}

func BenchmarkOpen2kB(b *testing.B) {
	s := mustSealer(b, SealKey{"2026-11", secret(1)})
	value := s.Seal(keyNo1, entryNo(1, 2000))
	b.SetBytes(2000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(keyNo1, value, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenDamaged250B(b *testing.B) {
	s := mustSealer(b, SealKey{"2026-11", secret(1)})
	value := s.Seal(keyNo1, entryNo(1, 200))
	value[len(value)-1] ^= 1
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Open(keyNo1, value, 1<<20); err == nil {
			b.Fatal("it opened")
		}
	}
}

var keyNo1 = keyNo(1)

var (
	_ = binary.MaxVarintLen16
	_ = math.MaxInt
	_ = runtime.NumCPU
	_ sync.Mutex
	_ atomic.Int32
	_ = s2.Encode
)
