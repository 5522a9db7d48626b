package receipt

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
)

// Whoever tells a record what happens does not read there what has happened.
func TestARecorderGivesNothingOfItsReceiptBack(t *testing.T) {
	r := reflect.TypeFor[*Recorder]()
	for i := range r.NumMethod() {
		m := r.Method(i)
		for out := range m.Type.Outs() {
			if !slices.Contains([]string{"Tried int", "AppendExtra []uint8"}, m.Name+" "+out.String()) {
				t.Errorf("%s returns a %s", m.Name, out)
			}
		}
	}
	for i := range r.Elem().NumField() {
		if f := r.Elem().Field(i); f.IsExported() {
			t.Errorf("its field %s can be read", f.Name)
		}
	}
}

func TestTimesAreThoseOfTheTierThatTookThem(t *testing.T) {
	now := time.Unix(1000, 0)
	rc := &Receipt{Began: now}
	r := NewRecorder(rc, func() time.Time { return now })
	after := func(d time.Duration) { now = now.Add(d) }
	after(time.Second)
	r.Enter("draft")
	after(2 * time.Second)
	r.Enter("target")
	after(4 * time.Second)
	r.RecordFirstByte()
	if rc.Draft != 2*time.Second || rc.Target != 4*time.Second || rc.First != 7*time.Second {
		t.Errorf("at the first byte: %v of the draft, %v of the target, %v in all", rc.Draft, rc.Target, rc.First)
	}
	after(8 * time.Second)
	r.Leave()
	after(16 * time.Second)
	r.Leave()
	if rc.Draft != 2*time.Second || rc.Target != 12*time.Second || rc.First != 7*time.Second {
		t.Errorf("at the end: %v of the draft, %v of the target, %v in all", rc.Draft, rc.Target, rc.First)
	}
	asked := now
	after(time.Second)
	r.RecordCheck(Check{Took: time.Second})
	r.RecordDraft(asked.Add(-5 * time.Second))
	if rc.Verify != time.Second || rc.Draft != 5*time.Second || rc.Checks[0].At != asked.Sub(rc.Began) {
		t.Errorf("%v of asking, %v of the draft, %+v", rc.Verify, rc.Draft, rc.Checks)
	}
}

func TestARecordIsBounded(t *testing.T) {
	rc := &Receipt{}
	r := NewRecorder(rc, time.Now)
	for i := range 2 * maxTries {
		r.RecordCheck(Check{})
		r.RecordFailover(Failover{})
		if entry := r.Tried(dispatch.Try{}, time.Time{}); (entry == 0) != (i >= maxTries) {
			t.Errorf("the entry of call %d is %d", i, entry)
		}
	}
	if len(rc.Tries) != maxTries || len(rc.Checks) != maxChecks || len(rc.Failovers) != maxChecks {
		t.Errorf("%d calls, %d checks, %d takeovers", len(rc.Tries), len(rc.Checks), len(rc.Failovers))
	}
}
