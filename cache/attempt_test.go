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
	anew(t, func(t *testing.T, told *Subscriber, second *Leader) {
		ghost := &Leader{generation: second.generation, attempt: second.attempt - 1}
		ghost.Append([]byte("ghost"))
		ghost.Opaque()
		ghost.Complete(wholeOf("ghost"), nil)
		ghost.Fail(errors.New("ghost"), true)
		second.Append([]byte("one two three"))
		wantText(t, told, " three")
		second.Complete(wholeOf("one two three"), nil)
		want(t, told, EventComplete)
	})
}
