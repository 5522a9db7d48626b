package tiers

import (
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

func departed(subscribers ...*subscriber) {
	for _, s := range subscribers {
		s.Depart()
	}
}

func TestAnAnswerThatIsBeingKeptIsThereForThoseWhoAskMeanwhile(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, answer := fs.join(streamed(1)), wholeOf("x")
		var kept func()
		first.complete(answer, func(then func()) { kept = then })
		second := fs.join(streamed(1))
		if _, e, err := second.next(t.Context(), time.Now().Add(time.Minute)); second.leads || e != answer || err != nil {
			t.Errorf("leads %t, %v, %v", second.leads, e, err)
		}
		kept()
		third := fs.join(streamed(1))
		if !third.leads { // it looks
			t.Error("the generation lives on")
		}
		departed(first, second, third)
	})
}

func TestAGenerationThatNobodyWantsAsItBeginsIsEndedAtOnce(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		s := fs.join(streamed(1))
		s.Depart() // while it looked in Redis
		ended := false
		s.begin(func(error) { ended = true })
		if !ended {
			t.Error("it was not ended")
		}
	})
}

func TestWhoAsksAfterAFailureWaitsForNobodyElses(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, second := fs.join(streamed(1)), fs.join(streamed(1))
		first.fail(ErrNotShareable)
		third := fs.join(streamed(1))
		if _, _, err := second.next(t.Context(), time.Now().Add(time.Minute)); second.leads || err != ErrNotShareable || !third.leads {
			t.Errorf("leads %t and %t, %v", second.leads, third.leads, err)
		}
		departed(first, second, third)
	})
}

func TestPatienceEndsOnlyAWaitInWhichNothingHasCome(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		lead, impatient, told := fs.join(streamed(1)), fs.join(streamed(1)), fs.join(streamed(1))
		began := time.Now()
		if _, _, err := impatient.next(t.Context(), began.Add(3*time.Second)); err != errLate || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v, want to go alone after 3 s", err, time.Since(began))
		}
		lead.append([]byte("x"))
		deadline := time.Now().Add(3 * time.Second)
		for _, want := range []string{"x", "y"} {
			if text, _, err := told.next(t.Context(), deadline); string(text) != want || err != nil {
				t.Errorf("%q, %v, want %q", text, err, want)
			}
			time.AfterFunc(time.Hour, func() { lead.append([]byte("y")) })
		}
		departed(impatient, impatient, told)
		if lead.isShared() {
			t.Error("somebody is left")
		}
		departed(lead)
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

func TestATenantHasSoManyPlacesAndOthersHaveTheirs(t *testing.T) {
	fs := NewGenerations(world.System{})
	subscribers := make([]*subscriber, 0, maxOfTenant)
	for i := range maxOfTenant {
		subscribers = append(subscribers, fs.join(streamed(1+i%4)))
	}
	if fs.join(streamed(9)) != nil {
		t.Error("a tenant has more places than it may have")
	}
	subscribers[0].Depart()
	if subscribers[0] = fs.join(streamed(1)); subscribers[0] == nil {
		t.Error("a place that was given up is not free")
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
