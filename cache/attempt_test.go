package cache

import (
	"errors"
	"testing"
)

// anew has a flight of which a seat was told some, and whose leader failed; another leads.
func anew(t *testing.T, run func(t *testing.T, told *Seat, second *Lead)) {
	t.Helper()
	inOneProcess(t, func(t *testing.T, fs *Flights) {
		leader, lead, _ := begin(t, fs, streamed(1))
		told := fs.Join(streamed(1))
		lead.Append([]byte("one two"))
		wantText(t, told, "one two")
		lead.Fail(errors.New("it broke off"), false)
		leader.Depart()
		other := fs.Join(streamed(1))
		second := want(t, other, EventLead).Lead
		second.Begin(nil, func(error) {})
		run(t, told, second)
		departed(told, other)
	})
}

func TestANewAttemptThatBeginsAlikeGoesOnSeamlessly(t *testing.T) {
	anew(t, func(t *testing.T, told *Seat, second *Lead) {
		second.Append([]byte("one"))
		waits(t, told) // it is shorter yet
		second.Append([]byte(" two"))
		waits(t, told) // there is nothing new
		second.Append([]byte(" three"))
		wantText(t, told, " three")
		second.Land(wholeOf("one two three"), nil)
		want(t, told, EventLanded)
	})
}

func TestANewAttemptThatSaysSomethingElseBreaksTheAnswer(t *testing.T) {
	for _, text := range []string{"on the", "One", "one twO and more"} {
		anew(t, func(t *testing.T, told *Seat, second *Lead) {
			second.Append([]byte(text))
			if n := want(t, told, EventFailed); !errors.Is(n.Err, ErrBroken) {
				t.Errorf("%q: failed with %v, want ErrBroken", text, n.Err)
			}
			second.Land(wholeOf(text), nil)
		})
	}
}

func TestAnAttemptThatIsOverTellsNothingMore(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Flights) {
		s := fs.Join(streamed(1))
		ghost := want(t, s, EventLead).Lead
		f, first := s.flight, ghost.attempt
		ok := depends(ghost)
		f.hear(first, []byte("one"))
		wantText(t, s, "one")
		f.vacate(first)
		lead := want(t, s, EventLead).Lead
		f.hear(first, []byte("ghost"))
		f.touchDown(first, wholeOf("ghost"))
		f.vacate(first)
		lead.Append([]byte("one two"))
		wantText(t, s, " two")
		lead.Fail(errors.New("failed"), false)
		third := want(t, s, EventLead).Lead
		second := third.attempt
		depends(third)
		f.hear(first, []byte("ghost"))
		f.vacate(first)
		if !ok || second == first || f.depends(first) || !f.depends(second) {
			t.Errorf("attempts %d and %d are not told apart", first, second)
		}
		f.hear(second, []byte("one two three"))
		wantText(t, s, " three")
		f.touchDown(second, wholeOf("one two three"))
		want(t, s, EventLanded)
		s.Depart()
	})
}

func TestWithoutRunNoOtherReplicaIsFollowed(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Flights) {
		leader, lead, _ := begin(t, fs, streamed(1))
		if lead.Lease() != nil {
			t.Error("there is a lease, and no Redis")
		}
		s := fs.Join(streamed(1))
		if lead.Follow(newLease(streamed(1))) {
			t.Fatal("it follows")
		}
		waits(t, s) // there is one leader still
		lead.Land(wholeOf("x"), nil)
		want(t, s, EventLanded)
		departed(leader, s)
	})
}

// depends is depend with the locks that it needs.
func depends(l *Lead) bool {
	fs, f := l.flight.owner, l.flight
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	return l.depend()
}
