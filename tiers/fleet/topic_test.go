package fleet

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestAHashOfAnotherOwnerIsReadInEachTick(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		const key = "foregate:{fg}:other"
		var got map[string]string
		var wrong error
		var at time.Time
		read := func(fields map[string]string, err error, askedAt time.Time) { got, wrong, at = fields, err, askedAt }
		f := New(Options{Redis: redistest.Client(t, redistest.Background(addr)), Hashes: []Hash{{key, read}}})
		for _, want := range []map[string]string{{}, {"a": "1"}, {"a": "2", "b": "3"}} {
			for field, value := range want {
				if err := raw.HSet(t.Context(), key, field, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			before := time.Now()
			redistest.Within(t, 10*time.Second, "it is read", func() bool { f.tick(t.Context()); return !at.Before(before) })
			if !maps.Equal(got, want) || wrong != nil {
				t.Errorf("read %v, %v; want %v", got, wrong, want)
			}
		}
		if err := raw.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		redistest.Within(t, 10*time.Second, "it is told", func() bool {
			f.tick(t.Context())
			return wrong != nil && strings.HasPrefix(wrong.Error(), "WRONGTYPE")
		})
	})
}
