package tiers

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/world"
)

// keyNo is one of many keys of a tenant.
func keyNo(n int) cache.Key {
	return cache.KeyOf(&cache.Parts{Tenant: "acme", Route: "m", Request: []byte(strconv.Itoa(n))})
}

// wholeOf is an answer of that text.
func wholeOf(text string) *cache.Entry {
	return &cache.Entry{Tier: "target", Finish: "stop", Answer: []byte(text)}
}

func streamed(n int) generationID { return generationID{Key: keyNo(n), Stream: true} }

// allGone fails a test that leaves a generation behind.
func allGone(t testing.TB, fs *Generations) {
	t.Helper()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.all) > 0 {
		t.Errorf("%d generations are left behind", len(fs.all))
	}
}

// inOneProcess runs a test in a bubble, with generations that are alone.
func inOneProcess(t *testing.T, run func(t *testing.T, fs *Generations)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fs := NewGenerations(world.System{})
		run(t, fs)
		allGone(t, fs)
	})
}

// next is a subscriber's next event, which must come within ten seconds.
func next(t testing.TB, s *subscriber) event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n, err := s.Next(ctx, time.Time{})
	if err != nil {
		t.Fatalf("nothing comes: %v", err)
	}
	return n
}

// want is next, which must be of a kind.
func want(t testing.TB, s *subscriber, e eventKind) event {
	t.Helper()
	n := next(t, s)
	if n.Kind != e {
		t.Fatalf("event %d (text %q, error %v), want %d", n.Kind, n.Text, n.Err, e)
	}
	return n
}

// begin takes a subscriber and leads; cancelled says whether its generation was ended.
func begin(t testing.TB, fs *Generations, id generationID) (s *subscriber, l *leader, cancelled func() bool) {
	t.Helper()
	s = fs.join(id)
	l = want(t, s, eventLead).Leader
	var ended atomic.Bool
	l.Begin(func(error) { ended.Store(true) })
	return s, l, ended.Load
}

func departed(subscribers ...*subscriber) {
	for _, s := range subscribers {
		s.Depart()
	}
}

func TestAnAnswerThatIsBeingKeptIsThereForThoseWhoAskMeanwhile(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, lead, _ := begin(t, fs, streamed(1))
		var kept func()
		lead.Complete(wholeOf("x"), func(then func()) { kept = then })
		second := fs.join(streamed(1))
		want(t, second, eventComplete)
		kept()
		third, lead, _ := begin(t, fs, streamed(1)) // it looks
		lead.Complete(wholeOf("x"), nil)
		departed(first, second, third)
	})
}

func TestAGenerationThatNobodyWantsAsItBeginsIsEndedAtOnce(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		s := fs.join(streamed(1))
		lead := want(t, s, eventLead).Leader
		s.Depart() // while it looked in Redis
		ended := false
		lead.Begin(func(error) { ended = true })
		if !ended {
			t.Error("it was not ended")
		}
		lead.Fail(context.Canceled, false)
	})
}

func TestWhoAsksAfterAFailureWaitsForNobodyElses(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, second := fs.join(streamed(1)), fs.join(streamed(1))
		want(t, first, eventLead).Leader.Fail(ErrNotShareable, true)
		third := fs.join(streamed(1))
		want(t, second, eventFailed)
		want(t, third, eventLead)
		for _, s := range []*subscriber{first, second, third} {
			s.Depart()
		}
	})
}

func TestPatienceEndsOnlyAWaitInWhichNothingHasCome(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, cancelled := begin(t, fs, streamed(1))
		impatient, told := fs.join(streamed(1)), fs.join(streamed(1))
		began := time.Now()
		n, err := impatient.Next(t.Context(), began.Add(3*time.Second))
		if err != nil || n.Kind != eventAlone || time.Since(began) != 3*time.Second {
			t.Errorf("event %d, %v after %v; want to go alone after 3 s", n.Kind, err, time.Since(began))
		}
		lead.Append([]byte("x"))
		deadline := time.Now().Add(3 * time.Second)
		if n, _ := told.Next(t.Context(), deadline); n.Kind != eventText {
			t.Fatalf("event %d, want text", n.Kind)
		}
		time.AfterFunc(time.Hour, func() { lead.Append([]byte("y")) })
		if n, _ := told.Next(t.Context(), deadline); n.Kind != eventText {
			t.Errorf("event %d an hour after some text, want text", n.Kind)
		}
		departed(impatient) // it did that already
		if cancelled() || !leader.Shared() {
			t.Error("it left twice")
		}
		lead.Complete(wholeOf("xy"), nil)
		departed(leader, told)
	})
}

func TestWhatIsToldEndsAtTheEndOfACharacter(t *testing.T) {
	text := []byte("a水é🙂\xff\xe6")
	for n := range len(text) + 1 {
		got := wholeRunes(text[:n])
		want := n
		for want > 0 && n < 11 && !utf8.Valid(text[:want]) {
			want--
		}
		if n == len(text) {
			want = n - 1 // what is no character is told as it is, what may become one is not
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text[:n], got, want)
		}
	}
}

func TestNoMoreThanABoundShareOneGeneration(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		subscribers := make([]*subscriber, maxSubscribers)
		for i := range subscribers {
			subscribers[i] = fs.join(streamed(1))
		}
		if fs.join(streamed(1)) != nil {
			t.Errorf("%d share it", maxSubscribers+1)
		}
		subscribers[0].Depart()
		subscribers[0] = fs.join(streamed(1))
		if subscribers[0] == nil {
			t.Error("a place that was given up is not free")
		}
		departed(subscribers...)
	})
}

func TestATenantHasSoManyPlacesAndOthersHaveTheirs(t *testing.T) {
	fs := NewGenerations(world.System{})
	subscribers := make([]*subscriber, 0, maxOfTenant)
	for i := range maxOfTenant {
		subscribers = append(subscribers, fs.join(streamed(1+i%4)))
	}
	if fs.join(streamed(9)) != nil {
		t.Error("a tenant has more places than it may have")
	}
	other := fs.join(generationID{Key: cache.KeyOf(&cache.Parts{Tenant: "globex"}), Stream: true})
	if other == nil {
		t.Fatal("another tenant has no place")
	}
	departed(append(subscribers, other)...)
	if len(fs.subscribers) != 0 || len(fs.all) != 0 {
		t.Errorf("%d tenants and %d generations are left", len(fs.subscribers), len(fs.all))
	}
}

func TestWhoVouchesMayComeBeforeOrAfterTheAnswer(t *testing.T) {
	for range 200 {
		v, kept := &confirmation{}, atomic.Int64{}
		var wg sync.WaitGroup
		wg.Go(func() { v.confirm(true) })
		wg.Go(func() {
			v.onOpinion(func(good bool) {
				if good {
					kept.Add(1)
				}
			})
		})
		if wg.Wait(); kept.Load() != 1 {
			t.Fatalf("kept %d times", kept.Load())
		}
		if v.confirm(false); kept.Load() != 1 {
			t.Fatal("kept again")
		}
	}
	v := &confirmation{}
	v.onOpinion(func(bool) { t.Error("kept though nobody vouched") })
}

func TestTheObjectOfASharedAnswerSaysWarmup(t *testing.T) {
	for acceptance, phase := range map[string]string{
		"accepted;phase=warmup;reason=confident;score=0.31": "warmup", "accepted;reason=confident;score=0.31": "",
	} {
		e := &cache.Entry{Tier: "draft", Accepted: 3, Acceptance: acceptance}
		var object struct {
			Phase, Reason string
			Score         float64
		}
		if err := json.Unmarshal(extraOf(e, cache.ResultCoalesced, 0), &object); err != nil || object.Phase != phase || object.Reason != "confident" || object.Score != 0.31 {
			t.Errorf("%s: %+v, %v", acceptance, object, err)
		}
	}
}

func TestRejectedKeysAreBoundedAndTheOldestAreForgotten(t *testing.T) {
	var r rejectedKeys
	key := func(i int) cache.Key { return cache.KeyOf(&cache.Parts{Route: strconv.Itoa(i)}) }
	if r.has(key(0)) {
		t.Error("known before it was added")
	}
	for i := range 3 * maxRejectedKeys {
		if r.add(key(i)); !r.has(key(i)) || i >= maxRejectedKeys && !r.has(key(i-maxRejectedKeys+1)) {
			t.Fatalf("key %d is forgotten", i)
		}
	}
	if r.has(key(0)) || len(r.young)+len(r.old) > 2*maxRejectedKeys {
		t.Errorf("the oldest is known; %d and %d keys", len(r.young), len(r.old))
	}
}
