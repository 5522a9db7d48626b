package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// at is a moment of a test's own clock.
func at(after time.Duration) time.Time { return time.UnixMilli(1_790_000_000_000).Add(after) }

// never is after every moment of a test.
var never = at(1000 * time.Hour)

// copyOf is an entry with an answer.
func copyOf(answer string) *Entry { return &Entry{Answer: slices.Clip([]byte(answer))} }

// wantCopy fails the test unless the copy at k is as told; "" is none.
func wantCopy(t *testing.T, l *local, k Key, now time.Time, want string) {
	t.Helper()
	got := ""
	if e, ok := l.get(k, now); ok {
		got = string(e.Answer)
	}
	if got != want {
		t.Errorf("copy %q, want %q", got, want)
	}
}

func TestACopyIsServedForASecondAfterRedisWasAsked(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "a", time.Second: "a", time.Second + 1: ""} {
		l := newLocal(1 << 20)
		ticket := l.reserve(keyNo(1), at(0))
		l.fill(ticket, copyOf("a"), never)
		wantCopy(t, l, keyNo(1), at(after), want)
	}
}

func TestACopyIsNeverServedAfterItsOwnEnd(t *testing.T) {
	l := newLocal(1 << 20)
	l.fill(l.reserve(keyNo(1), at(0)), copyOf("a"), at(300*time.Millisecond))
	wantCopy(t, l, keyNo(1), at(300*time.Millisecond-1), "a")
	wantCopy(t, l, keyNo(1), at(300*time.Millisecond), "")
	if n, bytes := l.holds(); n != 0 || bytes != 0 {
		t.Errorf("%d copies of %d bytes are held after their end", n, bytes)
	}
}

func TestACopyLivesAsLongAsInvalidationsAreHeard(t *testing.T) {
	l := newLocal(1 << 20)
	l.confirmSubscription(at(0))
	l.fill(l.reserve(keyNo(1), at(time.Millisecond)), copyOf("a"), never)
	l.confirmSubscription(at(time.Hour))
	l.confirmSubscription(at(time.Minute)) // late, and no step back
	wantCopy(t, l, keyNo(1), at(time.Hour+time.Second), "a")
	wantCopy(t, l, keyNo(1), at(time.Hour+time.Second+1), "")
}

func TestACopyFromBeforeASubscriptionIsNotCoveredByIt(t *testing.T) {
	t.Run("none before", func(t *testing.T) {
		l := newLocal(1 << 20)
		l.fill(l.reserve(keyNo(1), at(0)), copyOf("a"), never)
		l.confirmSubscription(at(time.Second + 1))
		wantCopy(t, l, keyNo(1), at(time.Second+1), "")
	})
	t.Run("another before", func(t *testing.T) {
		l := newLocal(1 << 20)
		l.confirmSubscription(at(0))
		l.fill(l.reserve(keyNo(1), at(0)), copyOf("a"), never)
		l.lost()
		l.confirmSubscription(at(time.Second + 1))
		wantCopy(t, l, keyNo(1), at(time.Second+1), "")
	})
	t.Run("it began while Redis was asked", func(t *testing.T) {
		l := newLocal(1 << 20)
		ticket := l.reserve(keyNo(1), at(0))
		l.confirmSubscription(at(time.Millisecond))
		l.fill(ticket, copyOf("a"), never)
		l.confirmSubscription(at(time.Second + 1))
		wantCopy(t, l, keyNo(1), at(time.Second+1), "")
	})
}

func TestALostSubscriptionLeavesCopiesWithWhenRedisWasAsked(t *testing.T) {
	l := newLocal(1 << 20)
	l.confirmSubscription(at(0))
	l.fill(l.reserve(keyNo(1), at(0)), copyOf("old"), never)
	l.fill(l.reserve(keyNo(2), at(time.Minute)), copyOf("new"), never)
	l.confirmSubscription(at(time.Minute))
	l.lost()
	wantCopy(t, l, keyNo(1), at(time.Minute), "")
	wantCopy(t, l, keyNo(2), at(time.Minute+time.Second), "new")
}

func TestAnInvalidationWhileRedisIsAskedWins(t *testing.T) {
	for what, invalidate := range map[string]func(l *local){
		"of the key": func(l *local) { l.forget(keyNo(1).Name()) },
		"of all":     func(l *local) { l.forgetAll() },
	} {
		l := newLocal(1 << 20)
		l.confirmSubscription(at(0))
		ticket := l.reserve(keyNo(1), at(0))
		invalidate(l)
		l.fill(ticket, copyOf("old"), never)
		wantCopy(t, l, keyNo(1), at(0), "")
		l.fill(l.reserve(keyNo(1), at(0)), copyOf("new"), never)
		if wantCopy(t, l, keyNo(1), at(0), "new"); t.Failed() {
			t.Fatalf("after an invalidation %s", what)
		}
	}
}

func TestAnInvalidationDropsItsOwnCopyOnly(t *testing.T) {
	l := newLocal(1 << 20)
	for n := range 3 {
		l.fill(l.reserve(keyNo(n), at(0)), copyOf(strconv.Itoa(n)), never)
	}
	l.forget(keyNo(1).Name())
	l.forget("foregate:settings")
	wantCopy(t, l, keyNo(0), at(0), "0")
	wantCopy(t, l, keyNo(1), at(0), "")
	wantCopy(t, l, keyNo(2), at(0), "2")
	l.forgetAll()
	if n, bytes := l.holds(); n != 0 || bytes != 0 {
		t.Errorf("%d copies of %d bytes are held after all was forgotten", n, bytes)
	}
	l.fill(l.reserve(keyNo(1), at(0)), copyOf("again"), never)
	wantCopy(t, l, keyNo(1), at(0), "again")
}

func TestTheLaterQuestionsCopyStays(t *testing.T) {
	l := newLocal(1 << 20)
	first, second := l.reserve(keyNo(1), at(0)), l.reserve(keyNo(1), at(time.Millisecond))
	l.fill(second, copyOf("second"), never)
	l.fill(first, copyOf("first"), never)
	wantCopy(t, l, keyNo(1), at(time.Millisecond), "second")
	if n, _ := l.holds(); n != 1 {
		t.Errorf("%d copies, want 1", n)
	}
}

func TestACopyIsFoundByTheWholeKey(t *testing.T) {
	l := newLocal(1 << 20)
	l.fill(l.reserve(keyNo(1), at(0)), copyOf("a"), never)
	tenant, seal := keyNo(1), keyNo(1)
	tenant.tenant[0]++
	seal.seal[0]++
	wantCopy(t, l, tenant, at(0), "")
	wantCopy(t, l, seal, at(0), "")
	wantCopy(t, l, keyNo(1), at(0), "a")
}

func TestTheCopyUsedLongestAgoMakesRoom(t *testing.T) {
	size := int64(localCopyOverhead + 1)
	l := newLocal(3 * size)
	for n := range 3 {
		l.fill(l.reserve(keyNo(n), at(0)), copyOf(strconv.Itoa(n)), never)
	}
	wantCopy(t, l, keyNo(0), at(0), "0")
	l.fill(l.reserve(keyNo(3), at(0)), copyOf("3"), never)
	for n, want := range []string{"0", "", "2", "3"} {
		wantCopy(t, l, keyNo(n), at(0), want)
	}
	if n, bytes := l.holds(); n != 3 || bytes != 3*size {
		t.Errorf("%d copies of %d bytes, want 3 of %d", n, bytes, 3*size)
	}
	l.fill(l.reserve(keyNo(4), at(0)), &Entry{Answer: make([]byte, 3*size)}, never)
	if n, _ := l.holds(); n != 3 {
		t.Errorf("a copy that is larger than all room made %d others go", 3-n)
	}
}

func TestNoRoomHoldsNothing(t *testing.T) {
	for _, maxSize := range []int64{0, -1} {
		l := newLocal(maxSize)
		l.fill(l.reserve(keyNo(1), at(0)), &Entry{}, never)
		wantCopy(t, l, keyNo(1), at(0), "")
		if n, _ := l.holds(); n != 0 {
			t.Errorf("%d copies in %d bytes", n, maxSize)
		}
	}
}

// localModel is Redis with what is on the wire between it and one process, in a test's own time.
type localModel struct {
	t   *testing.T
	r   *rand.Rand
	l   *local
	now time.Duration

	tracking bool
	wire     []event               // from Redis, in its order
	versions [4]int                // of each key
	replaced map[int]time.Duration // version → when it was no longer what Redis had
	told     [4]int                // the newest version an invalidation was heard of
	asking   []question
	hits     int // of copies
	tracked  int // of these, older than a second
	askedAt  map[int]time.Duration
}

// event is an invalidation, or the reply to a PING.
type event struct {
	key, version int // key -1 is a reply
	sent         time.Duration
}

// question is a GET under way; version is -1 until Redis has answered.
type question struct {
	ticket       ticket
	key, version int
}

// step lets one thing happen.
func (w *localModel) step() {
	w.now += time.Duration(w.r.IntN(40)) * time.Millisecond
	key := w.r.IntN(len(w.versions))
	switch w.r.IntN(12) {
	case 0:
		w.write(key)
	case 1, 2:
		w.asking = append(w.asking, question{w.l.reserve(keyNo(key), at(w.now)), key, -1})
	case 3, 4:
		w.answer()
	case 5, 6:
		w.fill()
	case 7, 8:
		w.deliver(1 + w.r.IntN(3))
	case 9, 10:
		if w.tracking {
			w.wire = append(w.wire, event{-1, 0, w.now})
		}
	case 11:
		w.change()
	}
	w.look(key)
}

func (w *localModel) write(key int) {
	w.replaced[w.versions[key]*len(w.versions)+key] = w.now
	w.versions[key]++
	if w.tracking {
		w.wire = append(w.wire, event{key, w.versions[key], 0})
	}
}

// answer lets Redis read for some question that it has not answered.
func (w *localModel) answer() {
	if i := slices.IndexFunc(w.asking, func(q question) bool { return q.version < 0 }); i >= 0 {
		w.asking[i].version = w.versions[w.asking[i].key]
	}
}

// fill lets the reply to some question arrive, or never arrive.
func (w *localModel) fill() {
	if len(w.asking) == 0 {
		return
	}
	i := w.r.IntN(len(w.asking))
	if q := w.asking[i]; q.version >= 0 {
		w.askedAt[q.version*len(w.versions)+q.key] = q.ticket.requestedAt.Sub(at(0))
		w.l.fill(q.ticket, copyOf(strconv.Itoa(q.version)), never)
		w.asking = slices.Delete(w.asking, i, i+1)
	} else if w.r.IntN(4) == 0 {
		w.asking = slices.Delete(w.asking, i, i+1)
	}
}

func (w *localModel) deliver(n int) {
	for ; n > 0 && len(w.wire) > 0; n-- {
		switch e := w.wire[0]; e.key {
		case -1:
			w.l.confirmSubscription(at(e.sent))
		default:
			w.l.forget(keyNo(e.key).Name())
			w.told[e.key] = e.version
		}
		w.wire = w.wire[1:]
	}
}

// change loses the subscription now and then, with all that is on the wire, or begins one.
func (w *localModel) change() {
	switch {
	case !w.tracking:
		w.tracking = true
	case w.r.IntN(10) == 0:
		w.tracking, w.wire = false, nil
		w.l.lost()
	}
}

// look fails the test where a copy is served that Redis no longer had a second ago, or
// whose invalidation has been heard.
func (w *localModel) look(key int) {
	e, ok := w.l.get(keyNo(key), at(w.now))
	if !ok {
		return
	}
	version, err := strconv.Atoi(string(e.Answer))
	if err != nil {
		w.t.Fatal(err)
	}
	id := version*len(w.versions) + key
	w.hits++
	if w.now-w.askedAt[id] > time.Second {
		w.tracked++
	}
	if gone, ok := w.replaced[id]; ok && w.now-gone > time.Second {
		w.t.Errorf("a copy that was replaced %v ago was served", w.now-gone)
	}
	if version < w.told[key] {
		w.t.Errorf("version %d was served after the invalidation for version %d", version, w.told[key])
	}
}

func TestACopyIsNeverServedASecondAfterItWasReplacedWhateverHappens(t *testing.T) {
	var hits, tracked int
	for seed := range uint64(whole(200)) {
		w := &localModel{t: t, r: rand.New(rand.NewPCG(seed, 6)), l: newLocal(3 * (localCopyOverhead + 8)), replaced: map[int]time.Duration{}, askedAt: map[int]time.Duration{}}
		for range 5000 {
			if w.step(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		hits, tracked = hits+w.hits, tracked+w.tracked
	}
	if t.Logf("%d hits, %d of copies older than a second", hits, tracked); tracked*20 < hits {
		t.Error("tracking hardly ever let a copy live longer")
	}
}

func TestCopiesMayBeUsedByManyAtOnce(t *testing.T) {
	l := newLocal(20 * (localCopyOverhead + 8))
	keys := make([]Key, 50)
	for i := range keys {
		keys[i] = keyNo(i)
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 6))
			for step := range whole(20_000) {
				n, now := r.IntN(len(keys)), at(time.Duration(step)*time.Millisecond)
				switch r.IntN(8) {
				case 0:
					l.forget(keys[n].Name())
				case 1, 2, 3:
					l.fill(l.reserve(keys[n], now), copyOf(strconv.Itoa(n)), never)
				default:
					if e, ok := l.get(keys[n], now); ok && string(e.Answer) != strconv.Itoa(n) {
						t.Errorf("key %d has the copy of %s", n, e.Answer)
					}
				}
			}
		})
	}
	for step := range whole(1000) {
		if l.confirmSubscription(at(time.Duration(step) * time.Millisecond)); step%100 == 0 {
			l.lost()
			l.forgetAll()
		}
	}
	all.Wait()
	if n, bytes := l.holds(); bytes > l.maxBytes || n > 20 || bytes < int64(n)*localCopyOverhead {
		t.Errorf("%d copies of %d bytes, most is %d", n, bytes, l.maxBytes)
	}
}

// benchLocal has n copies.
func benchLocal(n int) (l *local, keys []Key) {
	l = newLocal(1 << 30)
	l.confirmSubscription(at(0))
	for i := range n {
		keys = append(keys, keyNo(i))
		l.fill(l.reserve(keys[i], at(0)), entryNo(i, 2000), never)
	}
	return l, keys
}

func BenchmarkLocalHit(b *testing.B) {
	l, keys := benchLocal(10_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := l.get(keys[i%len(keys)], at(0)); !ok {
			b.Fatal("no copy")
		}
		i += 7
	}
}

// BenchmarkLocalHitOfMany shows whether one lock is enough.
func BenchmarkLocalHitOfMany(b *testing.B) {
	l, keys := benchLocal(10_000)
	for _, many := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d a processor", many), func(b *testing.B) {
			b.SetParallelism(many)
			b.RunParallel(func(pb *testing.PB) {
				i := 0
				for pb.Next() {
					if _, ok := l.get(keys[i%len(keys)], at(0)); !ok {
						b.Fatal("no copy")
					}
					i += 7
				}
			})
		})
	}
}

func BenchmarkLocalFill(b *testing.B) {
	l, keys := benchLocal(10_000)
	e := entryNo(1, 2000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		l.fill(l.reserve(keys[i%len(keys)], at(0)), e, never)
		i += 7
	}
}
