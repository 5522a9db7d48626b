package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// replayed makes the load of a trace in testdata.
func replayed(t *testing.T, file, format, more string) *Workload {
	t.Helper()
	return workload(t, fmt.Sprintf("duration: 1h\narrivals: {trace: {path: %s, format: %s}}\n%s",
		filepath.ToSlash(filepath.Join("testdata", file)), format, more))
}

func TestATraceIsReplayedAsItWasRecorded(t *testing.T) {
	type seen struct {
		At            time.Duration
		Words, Output int
	}
	want := []seen{{0, 364, 44}, {4314489 * time.Microsecond, 386, 109}, {4541787 * time.Microsecond, 1, 1}, {5 * time.Minute, 1014, 7}}
	for _, file := range []string{"trace_azure/lf.csv", "trace_azure/crlf_bom.csv", "trace_azure/zones.csv"} {
		w := replayed(t, file, "azure", "")
		var got []seen
		for i := 0; ; i++ {
			at, ok := w.Start(i)
			if !ok {
				break
			}
			r := w.Session(i).Request()
			if len(r.Messages) != 1 || r.Messages[0].Role != "user" || !r.IgnoreEOS || r.Prompt != "trace" || !r.Stream {
				t.Fatalf("%+v", r)
			}
			got = append(got, seen{at, len(strings.Fields(r.Messages[0].Content)), r.MaxTokens})
			if _, more := w.Session(i).Answered(" x"); more {
				t.Error("a recorded request has a second turn")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		if len(w.Notes()) != 0 {
			t.Errorf("%s: %v", file, w.Notes())
		}
	}
}

func TestSpeedAndLoadAndDurationBoundATrace(t *testing.T) {
	w := replayed(t, "trace_azure/lf.csv", "azure", "load: 2")
	if at, ok := w.Start(3); !ok || at != 150*time.Second {
		t.Errorf("at twice the load the last begins at %s", at)
	}
	w = workload(t, "duration: 4400ms\narrivals: {trace: {path: testdata/trace_azure/lf.csv, format: azure}}")
	if _, ok := w.Start(2); ok || len(w.trace.rows) != 2 {
		t.Errorf("%d rows within 4.4 s, want 2", len(w.trace.rows))
	}
}

func TestBlocksWithTheSameIDHaveTheSameText(t *testing.T) {
	w := replayed(t, "trace_jsonl/mooncake.jsonl", "jsonl", "prompts: [{name: m, stream: false, temperature: 0.5}]")
	var words [][]string
	for i := range 4 {
		r := w.Session(i).Request()
		words = append(words, strings.Fields(r.Messages[0].Content))
		if r.Stream || r.Temperature != 0.5 {
			t.Errorf("%+v", r)
		}
	}
	for i, want := range []int{1190, 1390, 600 - 10, 30} {
		if len(words[i]) != want {
			t.Errorf("request %d has %d words, want %d", i, len(words[i]), want)
		}
	}
	if diff := cmp.Diff(words[0][:1024], words[1][:1024]); diff != "" {
		t.Error("two blocks of the same ids differ")
	}
	if cmp.Equal(words[0][1024:1100], words[1][1024:1100]) || words[0][0] == words[2][0] {
		t.Error("blocks of other ids are alike")
	}
	if at, _ := w.Start(3); at != 3500*time.Millisecond {
		t.Errorf("the last begins at %s", at)
	}
	text := w.Session(0).Request().Messages[0].Content
	if n := len(vllmsim.DefaultTokenizer().Encode(strings.TrimSpace(text))); n != 1190 {
		t.Errorf("%d tokens, want 1190", n)
	}
}

func TestEveryMistakeOfATraceIsToldWithItsLine(t *testing.T) {
	const head = azureHeader + "\n2023-11-16 18:15:46.6805900,374,44\n"
	for _, tc := range []struct{ format, text, want string }{
		{"azure", "", "a:1: the trace ends without a request"},
		{"azure", "time,in,out\n", "a:1: want the header " + azureHeader},
		{"azure", azureHeader + "\n\n", "a:2: the trace ends without a request"},
		{"azure", head + "2023-11-16 18:15:50,1\n", "a:3: has 2 fields; want the 3 of " + azureHeader},
		{"azure", head + "yesterday,1,1\n", "a:3: TIMESTAMP: want a time such as 2023-11-16 18:15:46.6805900"},
		{"azure", head + "1970-01-01 00:00:00,1,1\n", "a:3: TIMESTAMP: want a time such as 2023-11-16 18:15:46.6805900"},
		{"azure", head + "2023-11-16 18:15:50,-1,1\n", "a:3: ContextTokens: want a whole number of 0 … 1048576"},
		{"azure", head + "2023-11-16 18:15:50,1,x\n", "a:3: GeneratedTokens: want a whole number of 0 … 200000"},
		{"azure", head + "2023-11-16 18:15:46,1,1\n", "a:3: the time is before that of the row above; want the rows in order"},
		{"azure", head + strings.Repeat("1", maxLine+1), "a:3: the line is longer than 1048576 bytes"},
		{"jsonl", "\n\n", "a:2: the trace ends without a request"},
		{"jsonl", "{}", "a:1: timestamp: want milliseconds of 0 … 3.2e+12"},
		{"jsonl", `{"timestamp":-1}`, "a:1: timestamp: want milliseconds of 0 … 3.2e+12"},
		{"jsonl", `{"timestamp":0}`, "a:1: input_length: want a whole number of 0 … 1048576"},
		{"jsonl", `{"timestamp":0,"input_length":5}`, "a:1: output_length: want a whole number of 0 … 200000"},
		{"jsonl", `{"timestamp":0,"input_length":"5"}`, "a:1: input_length: want whole numbers, not negative, got string"},
		{"jsonl", `{"timestamp":0,"input_length":5,"output_length":5,"hash_ids":[-1]}`, "a:1: hash_ids: want whole numbers, not negative, got number -1"},
		{"jsonl", `[]`, "a:1: want a JSON object, got array"},
		{"jsonl", `{"timestamp":0,`, "a:1: no JSON: unexpected end of JSON input"},
		{"jsonl", `{"timestamp":5,"input_length":5,"output_length":5}` + "\n" + `{"timestamp":4,"input_length":5,"output_length":5}`, "a:2: the time is before that of the row above; want the rows in order"},
	} {
		_, err := readTrace(strings.NewReader(tc.text), Trace{Path: "a", Format: tc.format}, 1, time.Hour)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%.60q: got %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestATraceThatIsNotThereSaysWhereToPutIt(t *testing.T) {
	s, err := Parse("a.yaml", []byte("duration: 1h\narrivals: {trace: {path: none.csv, format: azure}}\ntarget: {profile: x}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewWorkload(s, &s.Cases[0], 1); err == nil || !strings.Contains(err.Error(), "LOADTEST_TRACES") || !strings.Contains(err.Error(), "none.csv") {
		t.Error(err)
	}
}

func TestATraceTooLongIsCutAndSaysSo(t *testing.T) {
	tr := &trace{rows: make([]row, maxRows-1)}
	if !tr.add(entry{input: 1}, 0, time.Hour) || tr.add(entry{input: 1}, 0, time.Hour) || !tr.cut {
		t.Errorf("%d rows, cut %v", len(tr.rows), tr.cut)
	}
	w := &Workload{s: &Scenario{}, trace: tr}
	if n := w.Notes(); len(n) != 1 || !strings.Contains(n[0], "2000000") {
		t.Errorf("%q", n)
	}
}

func FuzzTrace(f *testing.F) {
	for format, pattern := range map[string]string{"azure": "testdata/trace_azure/*", "jsonl": "testdata/trace_jsonl/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(format == "azure", data)
		}
	}
	f.Fuzz(func(t *testing.T, azure bool, data []byte) {
		format := "jsonl"
		if azure {
			format = "azure"
		}
		tr, err := readTrace(bytes.NewReader(data), Trace{Path: "a", Format: format}, 2, time.Hour)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "a:") {
				t.Errorf("the error names no line: %v", err)
			}
			return
		}
		last := time.Duration(0)
		for _, r := range tr.rows {
			if r.at < last || r.at >= time.Hour || r.input < 0 || r.output < 0 || len(tr.blocks(r)) > int(r.input)/blockTokens+1 {
				t.Errorf("row %+v after %s", r, last)
			}
			last = r.at
		}
	})
}
