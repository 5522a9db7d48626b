package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestATamperingLeavesNoValueAsItWas(t *testing.T) {
	var all [][]byte
	for i := range tamperedEntries {
		all = append(all, fmt.Appendf(nil, "the value number %d", i))
	}
	for name, change := range map[string]tampering{"flipped": flipped, "cut off": cutOff, "scribbled": scribbled, "swapped": swapped} {
		for range 100 {
			out := change(all)
			if len(out) != len(all) {
				t.Fatalf("%s: %d values of %d", name, len(out), len(all))
			}
			for i := range out {
				if len(out[i]) == 0 || bytes.Equal(out[i], all[i]) || string(all[i]) != fmt.Sprintf("the value number %d", i) {
					t.Fatalf("%s: %q of %q", name, out[i], all[i])
				}
			}
		}
	}
}

func TestNoTwoLoadsAskAlikeUnlessTheirRowsSaySo(t *testing.T) {
	var r Request
	bodies := map[string]bool{}
	for load := range 3 {
		for n := range 3 {
			bodies[string(r.body(load, n))] = true
		}
	}
	if len(bodies) != 9 {
		t.Errorf("%d bodies of nine requests", len(bodies))
	}
	r.Prompt = "the same"
	if !bytes.Equal(r.body(1, 2), r.body(2, 3)) {
		t.Error("a prompt that is given is not asked alike")
	}
	r.Fields = map[string]any{"temperature": 1, "cache_salt": "x"}
	var b map[string]any
	if err := json.Unmarshal(r.body(1, 2), &b); err != nil || b["temperature"] != 1.0 || b["cache_salt"] != "x" {
		t.Errorf("the body with fields is %v: %v", b, err)
	}
}

func TestAnObserverHearsARequestAndTheBackendGetsItWhole(t *testing.T) {
	f := front(t)
	var told []byte
	var id string
	f.Observe(func(header http.Header, body []byte) { told, id = body, header.Get("X-Request-Id") })
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],"max_tokens":3}`, RouteModel)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+chatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "seven")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", resp.Status, answer, err)
	}
	if string(told) != body || id != "seven" {
		t.Errorf("told %q of %q", told, id)
	}
}

func TestSaltsAreOneForEachTenantAndNeverTheClients(t *testing.T) {
	ask := func(h *saltRecorder, n int, salt string) {
		h.hear(http.Header{}, fmt.Appendf(nil, `{"cache_salt":%q,"user":%q}`, salt, tenantName(n%manyTenants)))
	}
	for name, c := range map[string]struct {
		salt func(n int) string
		bad  bool
	}{
		"one each":     {func(n int) string { return fmt.Sprint("salt", n%manyTenants) }, false},
		"one for all":  {func(int) string { return "salt" }, true},
		"always anew":  {func(n int) string { return fmt.Sprint("salt", n) }, true},
		"none":         {func(int) string { return "" }, true},
		"the client's": {func(n int) string { return fmt.Sprint(guessedSalt, n%manyTenants) }, true},
	} {
		h := &saltRecorder{salts: map[string]map[string]bool{}}
		h.hear(http.Header{}, []byte(`{"prompt":"a probe"}`))
		for n := range 2 * manyTenants {
			ask(h, n, c.salt(n))
		}
		var w Testbed
		h.judge(&w)
		if (len(w.failures) > 0) != c.bad || h.requests != 2*manyTenants {
			t.Errorf("%s: %d asked, broken %q", name, h.requests, w.failures)
		}
	}
}

func TestAnAnswerThatIsNotWhatTheBackendsSayBreaksTheRow(t *testing.T) {
	all := []Outcome{{Kind: Answered, Text: "the sea"}, {Kind: CutSilent, Text: "the"}}
	var w Testbed
	w.allSay("it", "the sea", all)
	if len(w.failures) > 0 {
		t.Errorf("what was not answered is held to the text: %q", w.failures)
	}
	w.allSay("it", "the sea", append(all, Outcome{Kind: Answered, Text: "the se"}))
	if len(w.failures) != 1 {
		t.Errorf("broken: %q", w.failures)
	}
}

func TestAnswersAreComparedWithThoseBeforeAndWithXCache(t *testing.T) {
	of := func(text, word string) []Outcome {
		return []Outcome{{Kind: Answered, Text: text, Header: http.Header{"X-Cache": {word}}}}
	}
	for _, c := range []struct {
		is  []Outcome
		bad bool
	}{
		{of("the sea", wordMiss), false},
		{of("the se", wordMiss), true},
		{of("the sea", wordHit), true},
		{[]Outcome{{Kind: TimedOut}}, false}, // breaks the row by itself
	} {
		var w Testbed
		w.sameAnswers(of("the sea", wordMiss), c.is, wordMiss)
		if (len(w.failures) > 0) != c.bad {
			t.Errorf("%+v: broken %q", c.is, w.failures)
		}
	}
}
