package calls_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/internal/redistest"
)

const runKey = "foregate:{fg}:run"

// look has a detector look once.
func look(t *testing.T, c redis.UniversalClient, d *calls.Detector) calls.Loss {
	t.Helper()
	pipe := c.Pipeline()
	seen := d.Queue(t.Context(), pipe)
	_, _ = pipe.Exec(t.Context()) // the look has the error
	loss, err := seen()
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

func TestEveryReplicaFindsALossOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose  func(s *redistest.Server, older any)
		first calls.Loss
	}{
		"emptied":           {func(s *redistest.Server, _ any) { s.Do("FLUSHALL") }, calls.OtherData},
		"an older snapshot": {func(s *redistest.Server, older any) { s.Do("SET", runKey, older) }, calls.OlderData},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			a, b := calls.NewDetector(runKey), calls.NewDetector(runKey)
			for range 3 {
				if got := [2]calls.Loss{look(t, s.Client, a), look(t, s.Client, b)}; got != [2]calls.Loss{} {
					t.Fatalf("lost %v of a Redis that kept all", got)
				}
			}
			older := s.Do("GET", runKey)
			for range 5 { // a's number outgrows b's
				look(t, s.Client, a)
			}
			c.lose(s, older)
			if got := look(t, s.Client, a); got != c.first {
				t.Errorf("the first replica: %v, want %v", got, c.first)
			}
			found := 0
			for range 3 {
				look(t, s.Client, a)
				if look(t, s.Client, b) != calls.NoLoss {
					found++
				}
			}
			if found != 1 {
				t.Errorf("the second replica found it %d times", found)
			}
			if got := [2]calls.Loss{look(t, s.Client, calls.NewDetector(runKey)), look(t, s.Client, a)}; got != [2]calls.Loss{} {
				t.Errorf("after the loss: %v", got)
			}
		})
	}
}

func TestAnErrorSaysNothingAboutTheData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := calls.NewDetector(runKey)
	look(t, s.Client, d)
	s.Do("SET", runKey+":kept", s.Do("GET", runKey))
	s.Do("DEL", runKey)
	s.Do("RPUSH", runKey, "a list")
	pipe := s.Client.Pipeline()
	seen := d.Queue(t.Context(), pipe)
	_, _ = pipe.Exec(t.Context())
	if loss, err := seen(); loss != calls.NoLoss || err == nil {
		t.Errorf("%v, %v", loss, err)
	}
	s.Do("RENAME", runKey+":kept", runKey)
	if loss := look(t, s.Client, d); loss != calls.NoLoss {
		t.Errorf("%v after the error", loss)
	}
}
