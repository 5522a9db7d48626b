package fleet

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// topicPressure names the topic of readings, by "<pool>/<backend>".
const topicPressure = "pressure:4"

// told is a reading, the replica that took it, and its age when that was told.
type told struct {
	Source  string
	Age     int64 // ms
	Reading pressure.Reading
}

// Publish sends a reading at the next tick, only the newest of each backend. It never blocks. Unknown pools,
// and readings out of range, are ignored.
func (f *Fleet) Publish(pool, backend string, r pressure.Reading) {
	if f.redis == nil || f.pool(pool) == nil || backend == "" || len(backend) > maxID || r.Check() != nil {
		return
	}
	field := pool + "/" + backend
	f.queueMu.Lock()
	defer f.queueMu.Unlock()
	old, queued := f.readings[field]
	if queued && r.At.After(old.At) || !queued && len(f.readings) < maxBackends {
		f.readings[field] = r
	}
}

// tellReadings empties the queue of readings. Those of a failed tick are lost: the next ones are taken half a second later. A
// replica alone has nobody to tell.
func (f *Fleet) tellReadings() map[string]string {
	f.queueMu.Lock()
	queued := f.readings
	f.readings = map[string]pressure.Reading{}
	f.queueMu.Unlock()
	if f.isAlone() {
		return nil
	}
	out := make(map[string]string, len(queued))
	for field, r := range queued {
		age := max(time.Since(r.At), 0)
		text, err := json.Marshal(told{f.self, age.Milliseconds(), r})
		if err == nil && age <= publishable {
			out[field] = string(text)
		}
	}
	return out
}

// takeReading passes another replica's reading to its pool.
func (f *Fleet) takeReading(field, text string, age time.Duration) {
	name, backend, _ := strings.Cut(field, "/")
	var v told
	p := f.pool(name)
	switch err := json.Unmarshal([]byte(text), &v); {
	case p == nil || v.Source == f.self:
	case err != nil || v.Age < 0 || v.Reading.Check() != nil:
		f.metrics.errors.WithLabelValues(errReading).Inc()
	default:
		v.Reading.At = time.Now().Add(-age - time.Duration(v.Age)*time.Millisecond)
		p.ReceiveReading(backend, v.Reading) // if the pool has no such backend now, it may later
	}
}
