package fleet

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/pressure"
)

// stored is what Redis would hold of a reading.
func stored(t testing.TB, seq, source string, r pressure.Reading) string {
	t.Helper()
	tail, err := encodeReading(source, r)
	if err != nil {
		t.Fatal(err)
	}
	return version + " " + seq + " " + tail
}

func TestAReadingComesBackAsItWas(t *testing.T) {
	for _, r := range []pressure.Reading{busy(time.Time{}, 0.123456789), {}, {KVUsage: 1, NoUsage: true, PromptTokens: maxCounter}} {
		seq, source, got, err := decodeReading(stored(t, "1700000000123", "a", r))
		if err != nil || seq != 1700000000123 || source != "a" || !cmp.Equal(got, r) {
			t.Errorf("%d %s %+v, %v", seq, source, got, err)
		}
	}
}

// fill sets everything in v to something that is in range and not zero.
func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; field != "At" {
				fill(t, v.Field(i), field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), name)
		fill(t, v.Index(1), name)
	case reflect.Float64:
		v.SetFloat(rand.Float64())
	case reflect.Int:
		v.SetInt(1 + rand.Int64N(1000))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("v1")
	default:
		t.Fatalf("%s is a %s, which this package does not tell", name, v.Kind())
	}
}

func TestEveryFieldOfAReadingIsTold(t *testing.T) {
	var r pressure.Reading
	fill(t, reflect.ValueOf(&r).Elem(), "")
	_, _, got, err := decodeReading(stored(t, "1700000000123", "a", r))
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Errorf("a field is lost, encodeReading and version must follow tiers/pressure: %v, %s", err, diff)
	}
}

func TestAReadingOutOfRangeIsNotTold(t *testing.T) {
	for _, spoil := range []func(*pressure.Reading){
		func(r *pressure.Reading) { r.KVUsage = math.NaN() },
		func(r *pressure.Reading) { r.KVUsage = 85 },
		func(r *pressure.Reading) { r.KVUsage = -0.1 },
		func(r *pressure.Reading) { r.Running = -1 },
		func(r *pressure.Reading) { r.Iterations = math.Inf(1) },
		func(r *pressure.Reading) { r.PrefixHits = math.NaN() },
	} {
		r := busy(time.Now(), 0.5)
		spoil(&r)
		if tail, err := encodeReading("a", r); err == nil {
			t.Errorf("told as %q", tail)
		}
	}
}

func TestWhatIsNoReadingIsRefused(t *testing.T) {
	good := stored(t, "1700000000123", "a", busy(time.Time{}, 0.5))
	words := strings.Split(good, " ")
	if _, _, _, err := decodeReading(good); err != nil {
		t.Fatal(err)
	}
	for i := range words {
		for _, bad := range []string{"", "NaN", "Inf", "-Inf", "-1", "1e999", "banana", "99999999999999999999", "\x00", "0x1p4000", "0,0", "0,0,0;", "NaN,0,0"} {
			spoilt := append([]string(nil), words...)
			spoilt[i] = bad
			if _, _, r, err := decodeReading(strings.Join(spoilt, " ")); err == nil && (i != 2 || !validReplica(bad)) {
				t.Errorf("word %d as %q gives %+v", i+1, bad, r)
			}
		}
	}
	for i := range len(good) - 1 {
		if _, _, _, err := decodeReading(good[:i]); err == nil {
			t.Errorf("cut after %d bytes it is taken", i)
		}
	}
	for _, bad := range []string{"3" + good[1:], good + " 1", good + strings.Repeat("0", 600), "  ", "2  ", "{}"} {
		if _, _, _, err := decodeReading(bad); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}

func FuzzDecodeReading(f *testing.F) {
	f.Add(stored(f, "1700000000123", "a", busy(time.Time{}, 0.5)))
	f.Add("2 99999999999999999999 a 0 0 0 0 0 0 0 0 0 0 0 0 -")
	f.Add("2 0 a NaN 0 0 0 0 0 0 0 0 0 Inf 0 a")
	f.Add("2 1700000000123 whatever")
	f.Fuzz(func(t *testing.T, value string) {
		seq, source, r, err := decodeReading(value)
		if seq < 0 || seq > maxSeq {
			if err == nil {
				t.Fatalf("sequence %d", seq)
			}
		}
		if err != nil {
			return
		}
		tail, err := encodeReading(source, r)
		if err != nil || !r.At.IsZero() {
			t.Fatalf("a reading that cannot be told: %+v, %v", r, err)
		}
		word := strings.Split(value, " ")[1]
		_, again, same, err := decodeReading(version + " " + word + " " + tail)
		if err != nil || again != source || !cmp.Equal(same, r) {
			t.Fatalf("%+v became %+v, %v", r, same, err)
		}
	})
}
