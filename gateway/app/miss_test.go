package app_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/redistest"
)

// missing is a straight chat whose answer may be stored, and whose question was never asked before.
type missing struct {
	straight
	number []byte // in the request, counted up
	asked  int
}

// newMissing starts a replica with a Redis, an engine and a client, and sends the first requests.
func newMissing(t testing.TB, padding int) *missing {
	t.Helper()
	body := strings.Replace(straightQuestion, "How many", "1000000 "+strings.Repeat("How many ", padding/9)+"How many", 1)
	m := &missing{straight: straight{conn: startStraight(t, redistest.Start(t).Addr, ""), request: straightRequest("", body)}}
	at := bytes.Index(m.request, []byte("1000000"))
	m.number = m.request[at : at+7]
	for range 300 {
		m.ask(t)
	}
	return m
}

// ask asks another question.
func (m *missing) ask(t testing.TB) {
	m.asked++
	strconv.AppendInt(m.number[:0], int64(1000000+m.asked), 10)
	m.straight.ask(t)
}

// maxMissAllocs is how many allocations a miss makes at most, those of the look-up and of the store in the background
// included: 142 are those of a straight answer, most of them net/http's, and the others go-redis' for two round trips.
const maxMissAllocs = 225

func TestAMissAllocatesLittle(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const requests = 500
	m := newMissing(t, 0)
	least := minAllocs(requests, func() { m.ask(t) })
	t.Logf("%.1f allocations for a miss", least)
	if least > maxMissAllocs {
		t.Errorf("a miss makes %.1f allocations, want at most %d", least, maxMissAllocs)
	}
}
