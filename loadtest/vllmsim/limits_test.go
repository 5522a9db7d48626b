package vllmsim

import (
	"fmt"
	"strings"
	"testing"
)

const busyBody = `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}`

func TestTooManyRequestsAtOnceAreTurnedAway(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, MaxQueuedReqs: 3, Fault: Fault{Slow: 1e6}})
	a, b := begin(s, fmt.Sprintf(endless, true)), begin(s, fmt.Sprintf(endless, false))
	eventually(t, "both are in", func() bool { st := s.State(); return st.Running+st.Waiting == 2 })
	for _, body := range []string{`{"prompt":"x","n":2}`, `{"prompt":"x","n":2,"stream":true}`} {
		status, got := post(t, s, "/v1/completions", body)
		expect(t, body, [2]any{status, got}, [2]any{503, busyBody}) // n counts n times; no stream has begun yet
	}
	status, got := post(t, s, "/v1/completions", `{"prompt":["x","y"],"stream":true}`)
	expect(t, "found out late", [2]any{status, got}, [2]any{200, "data: " + busyBody + "\n\ndata: [DONE]\n\n"})
	status, got = post(t, s, "/v1/completions", `{"prompt":["x","y"]}`)
	expect(t, "late, no stream", [2]any{status, got}, [2]any{503, busyBody})
	if err := s.SetFault(Fault{Die: true}); err != nil {
		t.Fatal(err)
	}
	deadEnds(t, ended(t, a), ended(t, b))
}

func TestTooManyPromptTokensInPrefillAreTurnedAway(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, MaxQueuedTokens: 100, Fault: Fault{Slow: 1e6}})
	long := `{"prompt":"` + strings.Repeat("river ", 110) + `","max_tokens":2}`
	a := begin(s, long)
	eventually(t, "it is in", func() bool { st := s.State(); return st.Running+st.Waiting == 1 })
	status, got := post(t, s, "/v1/completions", `{"prompt":"x"}`)
	expect(t, "behind it", [2]any{status, got}, [2]any{503, busyBody})
	if err := s.SetFault(Fault{Die: true, DownSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", ended(t, a).status, 500)
	eventually(t, "it is back", func() bool { return s.State().Alive })
	// However long, a prompt alone gets in; and once its prefill is over it is no burden.
	ask(t, s, "/v1/completions", long)
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1}`)
	load := s.life().engines[0].load
	load.mu.Lock()
	defer load.mu.Unlock()
	expect(t, "in prefill", load.prefill, 0)
}
