package dataloss_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/dataloss"
	"github.com/foregate/foregate/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const key = "foregate:{fg}:run"

// look has a detector look once.
func look(t *testing.T, c redis.UniversalClient, d *dataloss.Detector) dataloss.Loss {
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
		first dataloss.Loss
	}{
		"emptied":           {func(s *redistest.Server, _ any) { s.Do("FLUSHALL") }, dataloss.Other},
		"an older snapshot": {func(s *redistest.Server, older any) { s.Do("SET", key, older) }, dataloss.Older},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			a, b := dataloss.New(key), dataloss.New(key)
			for range 3 {
				if got := [2]dataloss.Loss{look(t, s.Client, a), look(t, s.Client, b)}; got != [2]dataloss.Loss{} {
					t.Fatalf("lost %v of a Redis that kept all", got)
				}
			}
			older := s.Do("GET", key)
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
				if look(t, s.Client, b) != dataloss.None {
					found++
				}
			}
			if found != 1 {
				t.Errorf("the second replica found it %d times", found)
			}
			if got := [2]dataloss.Loss{look(t, s.Client, dataloss.New(key)), look(t, s.Client, a)}; got != [2]dataloss.Loss{} {
				t.Errorf("after the loss: %v", got)
			}
		})
	}
}

func TestAnErrorSaysNothingAboutTheData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := dataloss.New(key)
	look(t, s.Client, d)
	s.Do("SET", key+":kept", s.Do("GET", key))
	s.Do("DEL", key)
	s.Do("RPUSH", key, "a list")
	pipe := s.Client.Pipeline()
	seen := d.Queue(t.Context(), pipe)
	_, _ = pipe.Exec(t.Context())
	if loss, err := seen(); loss != dataloss.None || err == nil {
		t.Errorf("%v, %v", loss, err)
	}
	s.Do("RENAME", key+":kept", key)
	if loss := look(t, s.Client, d); loss != dataloss.None {
		t.Errorf("%v after the error", loss)
	}
}
