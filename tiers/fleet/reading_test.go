package fleet

import (
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
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
	for _, r := range []pressure.Reading{busy(time.Time{}, 0.123456789), {}, {KVUsage: 1, NoUsage: true, PromptTokens: 1e18}} {
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
		func(r *pressure.Reading) { r.Engines = 1025 },
		func(r *pressure.Reading) { r.BlockSize = 1<<16 + 1 },
		func(r *pressure.Reading) { r.Blocks = 1<<30 + 1 },
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
	r := busy(time.Time{}, 0.5)
	r.Answers, r.NoUsage = true, true
	good := stored(t, "1700000000123", "a", r)
	if _, _, _, err := decodeReading(good); err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(good, "{")
	var bad []string
	for _, field := range regexp.MustCompile(`"(\w+)":([^{},]+)`).FindAllStringSubmatchIndex(tail, -1) {
		name, end := tail[field[2]:field[3]], field[1]
		for _, value := range []string{"", "NaN", "-Inf", "-1", "1e999", "banana", `"ba nana"`, "99999999999999999999", "\x00", "null", "{}", "00"} {
			bad = append(bad, tail[:field[4]]+value+tail[end:])
		}
		bad = append(bad, strings.Replace(tail, name, strings.ToLower(name), 1), // another field
			tail[:end]+","+tail[field[0]:end]+tail[end:],        // twice
			tail[:field[0]]+strings.TrimPrefix(tail[end:], ",")) // missing
	}
	for _, tail := range append(bad, `"At":"",`+tail, " "+tail) {
		if _, _, r, err := decodeReading(head + "{" + tail); err == nil {
			t.Errorf("{%s gives %+v", tail, r)
		}
	}
	for i := range len(good) - 1 {
		if _, _, _, err := decodeReading(good[:i]); err == nil {
			t.Errorf("cut after %d bytes it is taken", i)
		}
	}
	for _, head := range []string{"", "3 ", "2 1700000000123 ", "4 1700000000123 ", "3 -1 ", "3 banana ", "3 99999999999999999999 ", "3 1700000000123  "} {
		if _, _, _, err := decodeReading(head + "{" + tail); err == nil {
			t.Errorf("%q is taken", head)
		}
	}
	for _, bad := range []string{good + " 1", good + strings.Repeat(" ", 1024), "  ", "3  ", "{}"} {
		if _, _, _, err := decodeReading(bad); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}

func FuzzDecodeReading(f *testing.F) {
	f.Add(stored(f, "1700000000123", "a", busy(time.Time{}, 0.5)))
	f.Add(`3 99999999999999999999 {"Source":"a","Reading":{}}`)
	f.Add(`3 0 {"Source":"a","Reading":{"KVUsage":NaN,"Iterations":1e999}}`)
	f.Add("3 1700000000123 whatever")
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
