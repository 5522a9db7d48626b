package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// audited are results of audits of two routes. While away is set, they cannot be read.
func audited(t *testing.T, away *atomic.Bool) *evidence.Store {
	t.Helper()
	e := evidence.New(evidence.Options{
		Memory: &evidence.Memory{Now: time.Now, Away: away.Load},
		Economics: func(risk.Key) risk.Economics {
			return risk.Economics{Saved: func(float64, bool) (usd, tokens float64) { return 0, 0 }}
		},
		Rule: func(string) risk.Rule {
			return risk.Rule{MaxDisagreement: .2, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 500}
		},
	})
	for i := range 600 { // enough for a grid of thresholds
		k, ticket := risk.Key{Route: []string{"llama-3", "other"}[i%2], TrafficClass: "all.0a1b2c3d"}, strconv.Itoa(i)
		d := e.View(k).Decide(k, risk.Sampling{Rate: 1}, 0)
		d.Chance = 1
		_, err := e.Open(t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: float64(i%50) / 50, Features: []float64{float64(i%50) / 50, 1}, Tokens: 7})
		if err = cmp.Or(err, e.Close(t.Context(), k, ticket, i%20 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestOperatorsSeeWhatAuditsHaveShown(t *testing.T) {
	var away atomic.Bool
	log, e := &lines{}, audited(t, &away)
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Logger, o.Evidence = zerolog.New(log), e })
	admin := "http://" + g.AdminAddr().String()
	for at, list := range map[string]string{"/admin/risk": "risk", "/admin/risk/frontier": "frontiers", "/admin/risk/applications": "applications"} {
		for query, want := range map[string]int{"": 2, "?route=llama-3": 1} {
			status, body := g.send(t, http.MethodGet, admin+at+query, "")
			var got map[string]json.RawMessage
			var rows []struct{ Route string }
			if err := cmp.Or(json.Unmarshal([]byte(body), &got), json.Unmarshal(got[list], &rows)); err != nil || status != http.StatusOK || len(rows) != want || rows[0].Route != "llama-3" {
				t.Errorf("%s%s: status %d, %v: %s", at, query, status, err, body)
			}
		}
		for query, want := range map[string]int{"?route=nobody": http.StatusNotFound, "?rute=x": http.StatusBadRequest} {
			if status, body := g.send(t, http.MethodGet, admin+at+query, ""); status != want {
				t.Errorf("%s%s: status %d: %s", at, query, status, body)
			}
		}
		away.Store(true)
		if status, body := g.send(t, http.MethodGet, admin+at, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, `"evidence_away"`) {
			t.Errorf("%s: status %d: %s", at, status, body)
		}
		away.Store(false)
	}
	if len(log.holding("the log is away")) != 3 {
		t.Errorf("the log:\n%s", log.holding(""))
	}
}

func TestWithoutAuditsTheListsAreEmpty(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	for at, want := range map[string]string{"/admin/risk": `{"risk":[],"refits":[]}`, "/admin/risk/frontier": `{"frontiers":[],"omitted":0}`, "/admin/risk/applications": `{"applications":[]}`} {
		if status, body := g.send(t, http.MethodGet, "http://"+g.AdminAddr().String()+at, ""); status != http.StatusOK || body != want+"\n" {
			t.Errorf("%s: status %d: %s", at, status, body)
		}
	}
}
