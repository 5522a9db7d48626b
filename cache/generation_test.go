package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// theAnswer is what is made in these tests, in the pieces in which it is told.
var theAnswer = []string{"Once ", "upon ", "a ", "time ", "there ", "was ", "a ", "cache."}

// wholeOf is an answer of that text.
func wholeOf(text string) *Entry { return &Entry{Tier: "target", Finish: "stop", Answer: []byte(text)} }

func streamed(n int) GenerationID { return GenerationID{Key: keyNo(n), Stream: true} }

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
		fs := NewGenerations(nil)
		run(t, fs)
		allGone(t, fs)
	})
}

// next is a subscriber's next event, which must come within ten seconds.
func next(t testing.TB, s *Subscriber) Event {
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
func want(t testing.TB, s *Subscriber, e EventKind) Event {
	t.Helper()
	n := next(t, s)
	if n.Kind != e {
		t.Fatalf("event %d (text %q, error %v), want %d", n.Kind, n.Text, n.Err, e)
	}
	return n
}

// wantText is next, which must be that text.
func wantText(t testing.TB, s *Subscriber, text string) {
	t.Helper()
	if n := want(t, s, EventText); string(n.Text) != text {
		t.Fatalf("told %q, want %q", n.Text, text)
	}
}

// waits fails a test whose subscriber has anything to do. Only in a bubble.
func waits(t testing.TB, s *Subscriber) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if n, err := s.Next(ctx, time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("event %d (text %q), want none", n.Kind, n.Text)
	}
}

// begin takes a subscriber and leads; cancelled says whether its generation was ended.
func begin(t testing.TB, fs *Generations, id GenerationID) (s *Subscriber, l *Leader, cancelled func() bool) {
	t.Helper()
	s = fs.Join(id)
	l = want(t, s, EventLead).Leader
	var ended atomic.Bool
	l.Begin(func(error) { ended.Store(true) })
	return s, l, ended.Load
}

func departed(subscribers ...*Subscriber) {
	for _, s := range subscribers {
		s.Depart()
	}
}

func TestAThousandIdenticalRequestsCostOneGeneration(t *testing.T) {
	for _, stream := range []bool{true, false} {
		inOneProcess(t, func(t *testing.T, fs *Generations) {
			id := GenerationID{Key: keyNo(1), Stream: stream}
			text := strings.Join(theAnswer, "")
			var leads, completed atomic.Int32
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					s := fs.Join(id)
					defer s.Depart()
					var told []byte
					for {
						switch n := next(t, s); n.Kind {
						case EventLead:
							leads.Add(1)
							n.Leader.Begin(func(error) { t.Error("it was cancelled") })
							for _, piece := range theAnswer {
								time.Sleep(time.Second)
								n.Leader.Append([]byte(piece))
							}
							time.Sleep(time.Second)
							n.Leader.Complete(wholeOf(text), nil)
						case EventText:
							told = append(told, n.Text...)
							if !strings.HasPrefix(text, string(told)) {
								t.Errorf("told %q", told)
							}
						case EventComplete:
							completed.Add(1)
							if stream && len(told) > 0 && string(told) != text || !stream && len(told) > 0 {
								t.Errorf("told %q before the whole %q", told, n.Entry.Answer)
							}
							return
						default:
							t.Errorf("event %d: %v", n.Kind, n.Err)
							return
						}
					}
				})
			}
			all.Wait()
			if leads.Load() != 1 || completed.Load() != 1000 {
				t.Errorf("%d led and %d have the answer; want 1 and 1000", leads.Load(), completed.Load())
			}
		})
	}
}

func TestTextArrivesInOrderAndWhole(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		id := streamed(1)
		leader, lead, _ := begin(t, fs, id)
		early := fs.Join(id)
		lead.Append([]byte("one "))
		wantText(t, early, "one ")
		waits(t, early)
		lead.Append([]byte("two "))
		lead.Append([]byte("three"))
		late := fs.Join(id)
		wantText(t, late, "one two three")
		wantText(t, early, "two three")
		if string(early.Sent()) != "one two three" {
			t.Errorf("sent %q", early.Sent())
		}
		e := wholeOf("one two three")
		lead.Complete(e, nil)
		for _, s := range []*Subscriber{leader, early, late} {
			if n := want(t, s, EventComplete); n.Entry != e {
				t.Error("another entry")
			}
		}
		departed(leader, early, late)
	})
}

func TestWhatASeatWasToldIsNotChangedByWhoAppendsToIt(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		s := fs.Join(streamed(1))
		for range 5 {
			lead.Append([]byte("abc"))
		}
		n := want(t, s, EventText)
		_ = append(n.Text, "XYZ"...)
		_ = append(s.Sent(), "XYZ"...)
		lead.Append([]byte("def"))
		wantText(t, s, "def")
		lead.Complete(wholeOf("abcabcabcabcabcdef"), nil)
		departed(leader, s)
	})
}

func TestARequestThatIsNotStreamedHearsNothingBeforeTheEnd(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		id := GenerationID{Key: keyNo(1)}
		leader, lead, _ := begin(t, fs, id)
		s := fs.Join(id)
		lead.Append([]byte("one"))
		waits(t, s)
		lead.Complete(wholeOf("one"), nil)
		want(t, s, EventComplete)
		departed(leader, s)
	})
}

func TestAnAnswerThatIsMoreThanTextSaysNothingMoreBeforeTheEnd(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		s := fs.Join(streamed(1))
		lead.Append([]byte("one"))
		wantText(t, s, "one")
		lead.Append([]byte("two"))
		lead.Opaque()
		lead.Append([]byte("three"))
		waits(t, s)
		lead.Complete(wholeOf("onetwothree and a call"), nil)
		want(t, s, EventComplete)
		departed(leader, s)
	})
}

func TestRequestsOfAnotherKeyClassOrFormDoNotShare(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		for _, id := range []GenerationID{
			{Key: keyNo(1)}, {Key: keyNo(2)}, {Key: keyNo(1), Class: 1}, {Key: keyNo(1), Class: -1}, {Key: keyNo(1), Stream: true},
		} {
			s, lead, _ := begin(t, fs, id)
			if s.Shared() {
				t.Error("it is shared")
			}
			defer func() { lead.Complete(wholeOf("x"), nil); s.Depart() }()
		}
	})
}

func TestWhoAsksAfterTheAnswerIsWholeBeginsAnew(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, lead, _ := begin(t, fs, streamed(1))
		lead.Complete(wholeOf("x"), nil)
		second, lead, _ := begin(t, fs, streamed(1))
		lead.Complete(wholeOf("y"), nil)
		departed(first, second)
	})
}

func TestAnAnswerThatIsBeingKeptIsThereForThoseWhoAskMeanwhile(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		first, lead, _ := begin(t, fs, streamed(1))
		var kept func()
		lead.Complete(wholeOf("x"), func(then func()) { kept = then })
		second := fs.Join(streamed(1))
		want(t, second, EventComplete)
		kept()
		third, lead, _ := begin(t, fs, streamed(1)) // it looks
		lead.Complete(wholeOf("x"), nil)
		departed(first, second, third)
	})
}

func TestWhenALeaderFailsOneOtherLeadsAndTheSecondFailureIsAllOfTheirs(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		subscribers := make([]*Subscriber, 50)
		var leads, failures atomic.Int32
		var second atomic.Pointer[Leader]
		last := errors.New("the second")
		var all sync.WaitGroup
		for i := range subscribers {
			subscribers[i] = fs.Join(streamed(1))
			all.Go(func() {
				n := next(t, subscribers[i])
				if n.Kind == EventLead {
					leads.Add(1)
					second.Store(n.Leader)
					n = next(t, subscribers[i])
				}
				if n.Kind == EventFailed && n.Err == last {
					failures.Add(1)
				}
			})
		}
		synctest.Wait()
		lead.Fail(errors.New("the first"), false)
		lead.Fail(errors.New("again"), true) // it has ended
		leader.Depart()
		synctest.Wait()
		if leads.Load() != 1 || failures.Load() != 0 {
			t.Fatalf("%d lead and %d failed; want 1 and 0", leads.Load(), failures.Load())
		}
		second.Load().Begin(func(error) {})
		second.Load().Fail(last, false)
		all.Wait()
		if leads.Load() != 1 || failures.Load() != 50 {
			t.Errorf("%d led and %d share the second failure; want 1 and 50", leads.Load(), failures.Load())
		}
		departed(subscribers...)
	})
}

func TestAHopelessFailureIsEveryonesAtOnce(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		a, b := fs.Join(streamed(1)), fs.Join(streamed(1))
		bad := errors.New("such a request is refused")
		lead.Fail(bad, true)
		for _, s := range []*Subscriber{leader, a, b} {
			if n := want(t, s, EventFailed); n.Err != bad {
				t.Errorf("failed with %v", n.Err)
			}
		}
		c, lead, _ := begin(t, fs, streamed(1)) // it is not remembered
		lead.Complete(wholeOf("x"), nil)
		departed(leader, a, b, c)
	})
}

func TestAFailureThatNobodySharesIsForgotten(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		lead.Fail(errors.New("failed"), false)
		leader.Depart()
		other, lead, _ := begin(t, fs, streamed(1))
		lead.Complete(wholeOf("x"), nil)
		other.Depart()
	})
}

func TestALeaderWhoLeavesDoesNotEndWhatOthersWaitFor(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, cancelled := begin(t, fs, streamed(1))
		a, b := fs.Join(streamed(1)), fs.Join(streamed(1))
		if !leader.Shared() {
			t.Error("it is not shared")
		}
		leader.Depart()
		leader.Depart()
		b.Depart()
		if cancelled() {
			t.Fatal("the answer that one waits for was cancelled")
		}
		if !leader.Shared() || a.Shared() {
			t.Error("one other wants it, and no other than that one")
		}
		lead.Append([]byte("x"))
		wantText(t, a, "x")
		lead.Complete(wholeOf("x"), nil)
		want(t, a, EventComplete)
		departed(a)
		if cancelled() {
			t.Error("a whole answer was cancelled")
		}
	})
}

func TestTheLastWhoLeavesEndsTheGeneration(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, cancelled := begin(t, fs, streamed(1))
		a := fs.Join(streamed(1))
		departed(leader)
		if cancelled() {
			t.Fatal("cancelled while one waits")
		}
		departed(a)
		if !cancelled() {
			t.Fatal("not cancelled, and nobody waits")
		}
		other, lead2, _ := begin(t, fs, streamed(1)) // not with what is being cancelled
		lead.Fail(context.Canceled, false)
		waits(t, other)
		lead2.Complete(wholeOf("x"), nil)
		want(t, other, EventComplete)
		departed(other)
	})
}

func TestAGenerationThatNobodyWantsAsItBeginsIsEndedAtOnce(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		s := fs.Join(streamed(1))
		lead := want(t, s, EventLead).Leader
		s.Depart() // while it looked in Redis
		ended := false
		lead.Begin(func(error) { ended = true })
		if !ended {
			t.Error("it was not ended")
		}
		lead.Fail(context.Canceled, false)
	})
}

func TestAFollowerWhoLeavesNeverEndsTheGeneration(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, cancelled := begin(t, fs, streamed(1))
		for range 100 {
			s := fs.Join(streamed(1))
			ctx, cancel := context.WithCancelCause(t.Context())
			left := errors.New("the client left")
			cancel(left)
			if _, err := s.Next(ctx, time.Time{}); err != left {
				t.Fatalf("error %v, want why its request ended", err)
			}
			s.Depart()
		}
		if cancelled() {
			t.Error("cancelled")
		}
		lead.Complete(wholeOf("x"), nil)
		leader.Depart()
	})
}

func TestPatienceEndsOnlyAWaitInWhichNothingHasCome(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, cancelled := begin(t, fs, streamed(1))
		impatient, told := fs.Join(streamed(1)), fs.Join(streamed(1))
		began := time.Now()
		n, err := impatient.Next(t.Context(), began.Add(3*time.Second))
		if err != nil || n.Kind != EventAlone || time.Since(began) != 3*time.Second {
			t.Errorf("event %d, %v after %v; want to go alone after 3 s", n.Kind, err, time.Since(began))
		}
		lead.Append([]byte("x"))
		deadline := time.Now().Add(3 * time.Second)
		if n, _ := told.Next(t.Context(), deadline); n.Kind != EventText {
			t.Fatalf("event %d, want text", n.Kind)
		}
		time.AfterFunc(time.Hour, func() { lead.Append([]byte("y")) })
		if n, _ := told.Next(t.Context(), deadline); n.Kind != EventText {
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

func TestWhatComesAsPatienceEndsIsTaken(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		for range 50 { // a select takes either
			leader, lead, _ := begin(t, fs, streamed(1))
			s := fs.Join(streamed(1))
			var n Event
			var all sync.WaitGroup
			deadline := time.Now().Add(time.Second)
			all.Go(func() { n, _ = s.Next(t.Context(), deadline) })
			synctest.Wait()
			s.generation.mu.Lock() // so that both are there when it looks
			time.Sleep(time.Until(deadline))
			s.generation.arrive([]byte("x"))
			s.generation.unlock()
			all.Wait()
			if n.Kind != EventText {
				t.Fatalf("event %d, want text", n.Kind)
			}
			lead.Complete(wholeOf("x"), nil)
			departed(leader, s)
		}
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
