package engines

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
)

func TestAnAnswerPassesFromEachEngine(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{})
		for _, stream := range []bool{false, true} {
			body := `{"model":%q,"stream":%v,"temperature":0,"max_tokens":12,"messages":[{"role":"user","content":"What is the capital of France?"}]}`
			direct := post(t, p.target.URL+"/v1/chat/completions", fmt.Sprintf(body, p.target.Model, stream))
			relayed := post(t, r.URL+"/v1/chat/completions", fmt.Sprintf(body, "off", stream))
			want, _, err1 := text(direct.body)
			got, _, err2 := text(relayed.body)
			if err1 != nil || err2 != nil || got != want || want == "" {
				t.Errorf("stream %v: %q, %v; the engine itself says %q, %v", stream, got, err2, want, err1)
			}
		}
	})
}

func TestAnEngineIsKilledFrozenAndRestarted(t *testing.T) {
	e := Start(t, Options{Kind: LlamaCpp, Model: LlamaTarget, Flags: []string{"--slots", "2"}})
	status := func() int {
		s, _ := apptest.Get(t, e.URL+"/health")
		return s
	}
	first := e.PID()
	e.Kill()
	if s := status(); s != 0 {
		t.Errorf("a killed engine answers %d", s)
	}
	if err := e.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := status(); s != http.StatusOK || e.PID() == first {
		t.Errorf("after its restart it answers %d, as process %d", s, e.PID())
	}
	if r, w, err := e.Busy(t.Context()); r != 0 || w != 0 || err != nil {
		t.Errorf("%d running, %d waiting, %v", r, w, err)
	}
	e.Freeze()
	c := http.Client{Timeout: 200 * time.Millisecond}
	apptest.Eventually(t, "a frozen engine says nothing", func() bool { // its threads stop one after the other
		resp, err := c.Get(e.URL + "/health")
		if err == nil {
			_ = resp.Body.Close() // it was not frozen yet
		}
		return err != nil
	})
	e.Thaw()
	apptest.Eventually(t, "it goes on", func() bool { return status() == http.StatusOK })
}

// kindOf is what the probe should find of an engine, and what stays missing.
var kindOf = map[string]struct {
	kind    string
	missing []string
}{LlamaCpp: {LlamaCpp, []string{"prompt_token_ids", "scoring", "eos"}}, VLLM: {VLLM, nil}}

func TestTheProbeFindsOutWhatEnginesAre(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{})
		status := r.Status(t)
		for pool, e := range map[string]*Engine{"small": p.draft, "large": p.target} {
			at := slices.IndexFunc(status.Engines, func(v gateway.EngineView) bool { return v.Pool == pool })
			if at < 0 || status.Engines[at].Failed != "" {
				t.Fatalf("%s: %+v", pool, status.Engines)
			}
			want := kindOf[e.Kind]
			if kind := r.Pool(pool).Snapshot()[0].Engine; string(kind) != want.kind {
				t.Errorf("%s is %q, want %q", pool, kind, want.kind)
			}
			for _, m := range status.Engines[at].Missing {
				if !slices.Contains(want.missing, m.Name) {
					t.Errorf("%s lacks %s: %s", pool, m.Name, m.Reason)
				}
			}
		}
		for _, m := range status.Drafts[0].UnavailableModes {
			if m.Name != "verify" || p.target.Kind == VLLM {
				t.Errorf("mode %s is not available: %s", m.Name, m.Reason)
			}
		}
	})
}
