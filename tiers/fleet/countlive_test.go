package fleet

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestWhoIsNoneOfTheReplicasIsToldHowManyLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, o := redistest.Embedded(t, redistest.Background)
		c := redis.NewClient(o)
		defer func() { _ = c.Close() }()
		want := func(n int, when string) {
			t.Helper()
			if got, err := CountLive(t.Context(), c); got != n || err != nil {
				t.Errorf("%s: %d live, %v, want %d", when, got, err, n)
			}
		}
		want(0, "before there was one")
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		stop := b.run(t)
		time.Sleep(time.Second)
		want(2, "two")
		for id, at := range map[string]time.Time{"dead": time.Now().Add(-goneAfter), "ahead": time.Now().Add(200 * time.Millisecond), "no name": time.Now(), strings.Repeat("x", maxReplica+1): time.Now()} {
			if _, err := m.ZAdd(keyReplicas, float64(at.UnixMilli()), id); err != nil {
				t.Fatal(err)
			}
		}
		want(2, "among others that are none")
		stop()
		want(1, "one has left")
	})
}

func TestASetOfReplicasThatIsNoneIsAnErrorThatNamesIt(t *testing.T) {
	m, o := redistest.Embedded(t, redistest.Background)
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	if err := m.Set(keyReplicas, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := CountLive(t.Context(), c); n != 0 || err == nil || !strings.Contains(fmt.Sprint(err), keyReplicas+": WRONGTYPE") {
		t.Errorf("%d live, %v", n, err)
	}
}
