package fleet

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/pressure"
)

// fill sets everything in v to something that is in range and not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		field := v.Field(i)
		switch field.Kind() {
		case reflect.Struct: // the time
		case reflect.Float64:
			field.SetFloat(rand.Float64())
		case reflect.Int:
			field.SetInt(1 + rand.Int64N(1000))
		case reflect.Bool:
			field.SetBool(true)
		default:
			t.Fatalf("%s is a %s, which this package does not tell", v.Type().Field(i).Name, field.Kind())
		}
	}
}

func TestEveryFieldOfAReadingIsTold(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a, b := join(t, o, "a"), join(t, o, "b")
	r := pressure.Reading{At: time.Now()}
	fill(t, reflect.ValueOf(&r).Elem())
	ticks(t, a)
	a.Publish("small", "b0", r)
	ticks(t, a, b)
	if told := b.taken[topicPressure+"/small/b0"]; told != "" {
		t.Errorf("a replica alone has told %s", told)
	}
	ticks(t, a)
	a.Publish("small", "b0", r)
	ticks(t, a, b)
	got := b.small.reading("b0")
	got.At = r.At
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("a field is lost: %s", diff)
	}
}

func TestAReadingOutOfRangeIsNotToldAndNotHeard(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a := join(t, o, "a")
	for _, spoil := range []func(*pressure.Reading){
		func(r *pressure.Reading) { r.KVUsage = math.NaN() },
		func(r *pressure.Reading) { r.KVUsage = 85 },
		func(r *pressure.Reading) { r.Running = -1 },
		func(r *pressure.Reading) { r.Iterations = math.Inf(1) },
	} {
		r := busy(time.Now(), 0.5)
		spoil(&r)
		if a.Publish("small", "b0", r); len(a.readings) > 0 {
			t.Errorf("told: %+v", a.readings)
		}
	}
	for _, text := range []string{
		"", "banana", "{", `{"Source":"b","Age":-1,"Reading":{}}`, `{"Source":"b","Reading":{"KVUsage":85}}`, `{"Source":"b","Reading":{"Running":-1}}`,
		`{"Source":"b","Reading":{"KVUsage":1e999}}`, strings.Repeat("x", maxText),
	} {
		a.takeReading("small/b0", text, time.Second)
	}
	if a.small.readingCalls != 0 || a.count(errReading) != 8 {
		t.Errorf("%d heard, %d counted", a.small.readingCalls, a.count(errReading))
	}
}

func FuzzTakeReading(f *testing.F) {
	f.Add(`{"Source":"a","Age":99999999999999999,"Reading":{"KVUsage":0.5}}`)
	f.Add(`{"Source":"a","Reading":{"KVUsage":NaN,"Iterations":1e999}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p := &recordingPool{name: "small"}
		a := New(Options{Replica: "self"})
		a.SetPools([]Pool{p})
		a.takeReading("small/b0", text, time.Second)
		if r := p.reading("b0"); r.Check() != nil {
			t.Errorf("heard %+v", r)
		}
	})
}
