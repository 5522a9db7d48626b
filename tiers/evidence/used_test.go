package evidence

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// TestAStateTellsWhenItWasUsedLast reads one that nobody used for an hour: the kind of request that a route has now is told
// from those of former models by that.
func TestAStateTellsWhenItWasUsedLast(t *testing.T) {
	s := redistest.Start(t)
	for name, r := range map[string]*replica{"Redis": join(t, s.Addr), "the process": join(t, "")} {
		r.teach()
		if r.raw != nil {
			an := float64(time.Now().Add(-time.Hour).Unix())
			if err := r.raw.ZAdd(t.Context(), keyIndex, redis.Z{Score: an, Member: chat.String()}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		r.later(time.Hour)
		known, err := r.All(t.Context())
		if err != nil || len(known) != 1 {
			t.Fatalf("%s: %v, %+v", name, err, known)
		}
		if ago := r.now().Sub(known[0].Seen); ago < 59*time.Minute {
			t.Errorf("in %s, %v ago", name, ago)
		}
	}
}
