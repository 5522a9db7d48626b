package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Topic is something that replicas tell each other in short texts by field; of two the later counts. All topics are in one
// hash. Tell and Take are called by [Fleet.Run]'s goroutine, once in each tick, and must not block.
type Topic struct {
	Name string // without "/"; it says the version of the texts, too
	// Tell returns what this replica has to tell now. What a failed tick has lost is told again by who tells it.
	Tell func() map[string]string
	// Take is called for each text that is new: what was told so long ago, by whichever replica. It may be of any shape.
	Take func(field, text string, age time.Duration)
	// Heard, if it is not nil, is called when all was taken that Redis had when it was asked at a time.
	Heard func(askedAt time.Time)
	// Lasting says that Tell returns what holds until it is told otherwise: it is sent if Redis has not the same, or not for much
	// longer. Whatever its age is, it is taken.
	Lasting bool

	Max  int           // fields that are sent and taken; 0 is 256
	Keep time.Duration // a text that is not told again is removed after it; 0 is an hour
}

const (
	defaultMax  = 256
	defaultKeep = time.Hour
	shareTime   = 1500 * time.Millisecond
	maxText     = 2000 // bytes of a text; a longer one is neither sent nor taken
	// MaxTold is the number of fields of the hash; a hash with more is deleted and told again.
	MaxTold = 16384
	// slack is how many ms a time may be ahead of Redis' clock, as far as a replica knows that.
	slack = 1000
)

var errText = errors.New("no text of a topic")

// stamp splits a stored text: the ms, by Redis' clock, at which it was told, a space, and the text.
func stamp(value string) (at int64, text string, ok bool) {
	ms, text, ok := strings.Cut(value, " ")
	at, err := strconv.ParseInt(ms, 10, 64)
	return at, text, ok && err == nil && len(text) <= maxText
}

// tell returns what this replica has to tell, by topic and field.
func (f *Fleet) tell(now int64) map[string]string {
	told := map[string]string{}
	maps.Copy(told, f.again)
	f.again = nil
	for name, o := range f.topics {
		n := 0
		for field, text := range o.Tell() {
			at, has, _ := stamp(f.taken[name+"/"+field])
			if age := now - at; o.Lasting && has == text && -slack <= age && age < o.Keep.Milliseconds()/2 {
				continue
			}
			if n < o.Max && len(text) <= maxText {
				told[name+"/"+field] = text
				n++
			}
		}
	}
	return told
}

// queueTopics sends what this replica has to tell, and reads all. Nothing is told before Redis' time is known.
func (f *Fleet) queueTopics(t *turn) {
	ctx := context.Background() // the round trip has the deadline
	if f.overfull {
		t.calls = append(t.calls, call{cmd: t.pipe.Unlink(ctx, keyTold), kind: errTopic, key: keyTold})
	}
	if !f.clock.at.IsZero() {
		answer := f.takeWaiting()
		ms := f.clock.when(t.at)
		t.told = f.tell(ms)
		now := strconv.FormatInt(ms, 10)
		values := make([]any, 0, 2*len(t.told))
		for key, text := range t.told {
			values = append(values, key, now+" "+text)
		}
		if len(values) == 0 {
			answer(nil)
		} else {
			t.calls = append(t.calls, call{cmd: t.pipe.HSet(ctx, keyTold, values...), kind: errTopic, key: keyTold, done: answer})
		}
	}
	all := t.pipe.HGetAll(ctx, keyTold)
	t.calls = append(t.calls, call{cmd: all, kind: errTopic, key: keyTold, receive: func() error {
		return f.takeTopics(t, all.Val())
	}})
}

// takeTopics passes the new texts to their topics. It returns the last problem.
func (f *Fleet) takeTopics(t *turn, all map[string]string) (problem error) {
	if f.overfull = len(all) > MaxTold; f.overfull {
		f.taken = nil
		return fmt.Errorf("more than %d fields", MaxTold)
	}
	if f.clock.at.IsZero() {
		return nil
	}
	was, fields := f.taken, map[string]int{}
	if f.retake.Swap(false) {
		was = nil
	}
	now := f.clock.when(t.at)
	for key, value := range all {
		name, field, _ := strings.Cut(key, "/")
		o := f.topics[name]
		if o == nil {
			continue // of another version
		}
		fields[name]++
		at, text, ok := stamp(value)
		switch {
		case fields[name] > o.Max:
			problem = fmt.Errorf("topic %s has more than %d fields", name, o.Max)
		case !ok || at > now+slack && !o.Lasting:
			problem = fmt.Errorf("field %.64q: %w", key, errText)
		case was[key] != value:
			o.Take(field, text, time.Since(t.at)+time.Duration(max(now-at, 0))*time.Millisecond)
		}
	}
	f.taken = all
	for _, o := range f.topics {
		if o.Heard != nil {
			o.Heard(t.at)
		}
	}
	return problem
}

// Share returns when Redis has what the topics have to tell now; an error says that it does not take it within 1.5 s.
func (f *Fleet) Share(ctx context.Context) error {
	if f.redis == nil {
		return ErrNoRedis
	}
	told := make(chan error, 1)
	f.queueMu.Lock()
	f.waiting = append(f.waiting, told)
	f.queueMu.Unlock()
	f.Wake()
	ctx, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeWaiting returns what tells those who wait in Share what came of it.
func (f *Fleet) takeWaiting() (answer func(error)) {
	f.queueMu.Lock()
	defer f.queueMu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return func(err error) {
		for _, told := range waiting {
			told <- err
		}
	}
}

// forgotten are the fields that nobody has told for long, or that are of no use.
func (f *Fleet) forgotten(now int64) (fields []string) {
	for key, value := range f.taken {
		keep := defaultKeep
		name, _, _ := strings.Cut(key, "/")
		if o := f.topics[name]; o != nil {
			keep = o.Keep
		}
		at, _, ok := stamp(value)
		if !ok || max(now-at, at-now) > keep.Milliseconds() {
			fields = append(fields, key)
		}
	}
	return fields
}

// Ticked reports whether what others have told was read once, or is not read at all.
func (f *Fleet) Ticked() bool { return f.redis == nil || f.lastError.Load() != nil }
