package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Topic is something that replicas tell each other in short texts by field; of two the later counts. Tell and Take are
// called by [Fleet.Run]'s goroutine, once in each tick, and must not block.
type Topic struct {
	Name string // ends the key in Redis; it says the version of the texts, too
	// Tell returns what this replica has to tell now.
	Tell func() map[string]string
	// Take is called for each text that is new: what was told so long ago, by whichever replica. It may be of any shape.
	Take func(field, text string, age time.Duration)
}

const (
	maxTexts = 256       // fields of a topic; a hash with more is deleted and told again
	maxText  = 2000      // bytes of a text
	textTTL  = time.Hour // of the whole topic, from the last text that was told
)

// topic is the options' one, with what was taken of it.
type topic struct {
	Topic
	key   string
	taken map[string]string // by field; used by the goroutine that ticks
}

var errText = errors.New("no text of a topic")

// queueTopic sends what this replica has to tell, and takes what is new. Texts that a failed tick has lost are told
// again by those who tell them.
func (f *Fleet) queueTopic(t *turn, o *topic) {
	args := []any{maxTexts, "drop"}
	for field, text := range o.Tell() {
		if len(text) <= maxText {
			args = append(args, field, 0, text)
		}
	}
	t.calls = append(t.calls, queue(t.pipe, shareScript, o.key, args, func(now int64, wrong string, values []any) {
		var problem error
		if wrong != "" {
			problem = errors.New(wrong)
		}
		next := make(map[string]string, len(o.taken))
		for field, value := range pairs(values) {
			next[field] = value
			if o.taken[field] == value {
				continue
			}
			seq, ok := stamp(value)
			if !ok || !strings.HasPrefix(value, version+" ") || seq > now {
				problem = fmt.Errorf("field %.64q: %w", field, errText)
				continue
			}
			o.Take(field, strings.SplitN(value, " ", 3)[2], f.now().Sub(t.at)+time.Duration(now-seq)*time.Millisecond)
		}
		o.taken = next
		f.countProblem(errTopic, o.key, problem)
	}, func(err error) { f.countProblem(errTopic, o.key, err) }))
	if len(args) > 2 {
		t.calls = append(t.calls, f.counted(t.pipe.PExpire(context.Background(), o.key, textTTL), errTopic))
	}
}

// Ticked reports whether what others have told was read once, or is not read at all.
func (f *Fleet) Ticked() bool { return f.redis == nil || f.lastError.Load() != nil }
