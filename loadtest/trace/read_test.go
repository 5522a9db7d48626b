package trace

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

// lines repeats a line for each request of a trace, one each 400 ms, with its TIME and its NUMBER.
func lines(head, format, layout string) string {
	var b strings.Builder
	b.WriteString(head)
	begin := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range 250 {
		at := begin.Add(time.Duration(i) * 400 * time.Millisecond).Format(layout)
		b.WriteString(strings.NewReplacer("TIME", at, "NUMBER", strconv.Itoa(i)).Replace(format))
	}
	return b.String()
}

const (
	azure    = "2006-01-02 15:04:05.0000000"
	azureCSV = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
)

// formats are a trace in each format: 250 requests of 40 tokens with answers of 10.
var formats = map[string]string{
	"Azure's trace":       lines(azureCSV, "TIME,40,10\n", azure),
	"receipts":            lines("", `{"id":"NUMBER","tenant":"a","route":"r","time":"TIME","code":200,"cache":"miss","tokens":{"prompt":40,"accepted":4,"target":6}}`+"\n", time.RFC3339Nano),
	"receipts of the log": lines("", `{"level":"info","receipt":{"id":"NUMBER","time":"TIME","code":200,"tokens":{"prompt":40,"accepted":0,"target":10}},"message":"receipt"}`+"\n", time.RFC3339Nano),
	"LiteLLM's spend log": lines("", `{"request_id":"NUMBER","startTime":"TIME","endTime":"","prompt_tokens":40,"completion_tokens":10,"model":"m","cache_hit":"False","cache_key":"Cache OFF"}`+"\n", time.RFC3339Nano),
	"LiteLLM's spend log, CSV": lines("request_id,model,startTime,prompt_tokens,completion_tokens,cache_hit\n",
		"NUMBER,\"m, or\",TIME,40,10,False\n", "2006-01-02 15:04:05.000-07:00"),
	"vLLM's log of requests": "INFO 03-01 09:59:59 [api_server.py:1] vLLM starts\n" + lines("",
		"INFO TIME [logger.py:42] Received request cmpl-NUMBER: prompt: 'Name NUMBER, please', params: SamplingParams(n=1, max_tokens=16), prompt_token_ids: ["+
			strings.Repeat("7, ", 38)+"NUMBER, 3], prompt_embeds shape: None, lora_request: None.\n"+
			"INFO TIME [logger.py:80] Generated response cmpl-NUMBER: output: 'yes', output_token_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], finish_reason: stop\n", "01-02 15:04:05"),
}

func TestEveryFormatIsRead(t *testing.T) {
	for name, text := range formats {
		got, err := Read(strings.NewReader(text), Load{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := got.Summary()
		if want, _, _ := strings.Cut(name, ","); !strings.HasPrefix(want, s.Format) {
			t.Errorf("%s was taken for %s", name, s.Format)
		}
		if s.Requests != 250 || s.Prompt50 != 40 || s.Output99 != 10 || s.Repeats != 0 || s.Unreadable+s.Unanswered > 0 || s.PerSecond < 2.4 || s.PerSecond > 2.6 {
			t.Errorf("%s: %+v", name, s)
		}
		if strings.HasPrefix(name, "vLLM") && (s.Shared < 0.7 || s.Shared > 0.81) {
			t.Errorf("%s: of prompts of 40 tokens that share 38, %.2f is shared; want two blocks of 16", name, s.Shared)
		}
	}
}

func TestRepeatsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"a hit":       strings.ReplaceAll(formats["receipts"], `"cache":"miss"`, `"cache":"hit"`),
		"a cache key": strings.ReplaceAll(formats["LiteLLM's spend log"], "Cache OFF", "k1"),
		"a cache hit": strings.ReplaceAll(formats["LiteLLM's spend log"], `"cache_hit":"False"`, `"cache_hit":"True"`),
	} {
		got, err := Read(strings.NewReader(text), Load{})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Summary(); s.Repeats < 0.99 {
			t.Errorf("%s: %g of the requests repeat", name, s.Repeats)
		}
	}
	described, err := Describe(Load{Rate: 5, Prompt: 100, Output: 50, Repeats: 0.3, Shared: 60, For: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := described.Summary()
	if s.Repeats < 0.25 || s.Repeats > 0.35 || s.Prompt50 < 150 || s.Prompt50 > 170 || s.Output50 < 45 || s.Output50 > 55 || s.PerSecond < 4.5 || s.PerSecond > 5.5 || s.Shared < 0.2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatCannotBeReadIsCountedAndShown(t *testing.T) {
	text := formats["Azure's trace"] + "2026-03-01 10:00:01,-3,10\nyesterday,40,10\n2026-03-01 10:00:01,40\n2026-03-01 10:00:02,x,1\n2026-03-01 10:00:02,0,1\n2031-03-01 10:00:02,1,1\n"
	got, err := Read(strings.NewReader(text), Load{})
	if err != nil {
		t.Fatal(err)
	}
	s := got.Summary()
	if s.Requests != 250 || s.Unreadable != 5 || len(s.Examples) != 3 || s.Unanswered != 1 {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{"line 252: -3 and 10 tokens: a number of tokens is negative", "line 253: yesterday is no time", `line 254: "" is no number`} {
		if !strings.HasPrefix(s.Examples[i], want) {
			t.Errorf("%q, want %q", s.Examples[i], want)
		}
	}
	if shown := s.Text(); !strings.Contains(shown, "5 lines could not be read:\n  line 252") || !strings.Contains(shown, "Assumed: No request repeats") {
		t.Error(shown)
	}
}

func TestATraceOfNoUseIsRefused(t *testing.T) {
	ten := strings.Join(strings.SplitAfter(formats["Azure's trace"], "\n")[:11], "")
	silent := strings.ReplaceAll(formats["vLLM's log of requests"], "Generated response", "Forgotten response")
	for text, want := range map[string]string{
		"": "empty", "a,b\n1,2\n": "want the columns TIMESTAMP", "[{}]": "one JSON array", ten: "10 requests are too few for a P99: want 200",
		`{"a":1}` + "\n": "0 requests are too few for a P99: want 200 or more; 1 lines could not be read, the first: line 1: it has neither tokens",
		lines(azureCSV, "2026-03-01 10:00:00,40,10\n", azure): "want a minute", silent: "--enable-log-outputs",
	} {
		if _, err := Read(strings.NewReader(text), Load{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if got, err := Read(strings.NewReader(silent), Load{Output: 30}); err != nil || got.Summary().Output50 != 30 {
		t.Errorf("answers of 30 tokens: %v", err)
	}
	for _, l := range []Load{
		{Rate: -1, Prompt: 1, Output: 1}, {Rate: 1, Prompt: -1, Output: 1}, {Rate: 1, Prompt: 1}, {}, {Rate: 1, Prompt: 1, Output: 1, Repeats: 1},
		{Rate: 1, Prompt: 1, Output: 1, Shared: -1}, {Rate: 1, Prompt: 1, Output: 1, For: -time.Hour}, {Rate: 1, Prompt: 1, Output: 1, For: time.Minute},
	} {
		if _, err := Describe(l); err == nil {
			t.Errorf("%+v was not refused", l)
		}
	}
}

func TestTheBusiestStretchBeginsAnew(t *testing.T) {
	tr := &Trace{}
	for i := range 300 {
		at := time.Duration(i) * time.Second
		if i >= 100 && i < 200 {
			at = 100*time.Second + time.Duration(i-100)*time.Second/2
		}
		tr.Requests = append(tr.Requests, loadtest.Given{At: at, Prompt: i})
	}
	got := tr.Busiest(50)
	if len(got) != 50 || got[0].At != 0 || got[49].At != 49*time.Second/2 || got[0].Prompt < 100 || got[49].Prompt >= 200 || tr.Requests[150].At < time.Minute {
		t.Errorf("%d requests in %s, from %d", len(got), got[49].At, got[0].Prompt)
	}
	if all := tr.Busiest(300); len(all) != 300 {
		t.Errorf("%d of 300", len(all))
	}
}

func TestAnotherTraceHasTheSameTimesAndTheSameRequests(t *testing.T) {
	var of []loadtest.Given
	for i := range 1000 {
		of = append(of, loadtest.Given{At: time.Duration(i) * time.Second, Prompt: i, Words: i})
	}
	if same := Another(of, 1); same[500] != of[500] {
		t.Error("seed 1 is not the trace")
	}
	other, moved, sum := Another(of, 2), 0, 0
	for i, g := range other {
		if g.At != of[i].At || g.Prompt/300 != i/300 {
			t.Fatalf("request %d at %s is that of %d", i, g.At, g.Prompt)
		}
		if sum += g.Prompt; g.Prompt != i {
			moved++
		}
	}
	if moved < 900 || sum != 999*500 {
		t.Errorf("%d moved", moved)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range formats {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)/2]))
	}
	f.Add([]byte("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read(strings.NewReader(string(text)), Load{})
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, g := range got.Requests {
			if g.At < last || g.Prompt < 1 || g.Output < 1 || g.Shared < 0 || g.Shared >= g.Prompt {
				t.Fatalf("%+v after %s", g, last)
			}
			last = g.At
		}
		s := got.Summary()
		_ = s.Text()
	})
}
