package cache

import (
	"errors"
	"testing"
)

// anew has a generation of which a subscriber was told some, and whose leader failed; another leads.
func anew(t *testing.T, run func(t *testing.T, told *Subscriber, second *Leader)) {
	t.Helper()
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		told := fs.Join(streamed(1))
		lead.Append([]byte("one two"))
		wantText(t, told, "one two")
		lead.Fail(errors.New("it broke off"), false)
		leader.Depart()
		other := fs.Join(streamed(1))
		second := want(t, other, EventLead).Leader
		second.Begin(func(error) {})
		run(t, told, second)
		departed(told, other)
	})
}

func TestANewAttemptThatBeginsAlikeGoesOnSeamlessly(t *testing.T) {
	anew(t, func(t *testing.T, told *Subscriber, second *Leader) {
		second.Append([]byte("one"))
		waits(t, told) // it is shorter yet
		second.Append([]byte(" two"))
		waits(t, told) // there is nothing new
		second.Append([]byte(" three"))
		wantText(t, told, " three")
		second.Complete(wholeOf("one two three"), nil)
		want(t, told, EventComplete)
	})
}

func TestANewAttemptThatSaysSomethingElseBreaksTheAnswer(t *testing.T) {
	for _, text := range []string{"on the", "One", "one twO and more"} {
		anew(t, func(t *testing.T, told *Subscriber, second *Leader) {
			second.Append([]byte(text))
			if n := want(t, told, EventFailed); !errors.Is(n.Err, ErrBroken) {
				t.Errorf("%q: failed with %v, want ErrBroken", text, n.Err)
			}
			second.Complete(wholeOf(text), nil)
		})
	}
}

func TestAnAttemptThatIsOverTellsNothingMore(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		s := fs.Join(streamed(1))
		ghost := want(t, s, EventLead).Leader
		f, first := s.generation, ghost.attempt
		ok := depends(ghost)
		f.hear(first, []byte("one"))
		wantText(t, s, "one")
		f.loseLeader(first)
		lead := want(t, s, EventLead).Leader
		f.hear(first, []byte("ghost"))
		f.completeElsewhere(first, wholeOf("ghost"))
		f.loseLeader(first)
		lead.Append([]byte("one two"))
		wantText(t, s, " two")
		lead.Fail(errors.New("failed"), false)
		third := want(t, s, EventLead).Leader
		second := third.attempt
		depends(third)
		f.hear(first, []byte("ghost"))
		f.loseLeader(first)
		if !ok || second == first || f.depends(first) || !f.depends(second) {
			t.Errorf("attempts %d and %d are not told apart", first, second)
		}
		f.hear(second, []byte("one two three"))
		wantText(t, s, " three")
		f.completeElsewhere(second, wholeOf("one two three"))
		want(t, s, EventComplete)
		s.Depart()
	})
}

func TestWithoutRunNoOtherReplicaIsFollowed(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		leader, lead, _ := begin(t, fs, streamed(1))
		if lead.Lease() != nil {
			t.Error("there is a lease, and no Redis")
		}
		s := fs.Join(streamed(1))
		lead.lease = &Lease{Holder: "another"}
		if lead.Follow() {
			t.Fatal("it follows")
		}
		waits(t, s) // there is one leader still
		lead.Complete(wholeOf("x"), nil)
		want(t, s, EventComplete)
		departed(leader, s)
	})
}

// depends is depend with the locks that it needs.
func depends(l *Leader) bool {
	fs, f := l.generation.owner, l.generation
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	return l.depend()
}
