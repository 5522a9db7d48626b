package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/risk"
)

func TestOperatorsSeeWhatAuditsHaveShown(t *testing.T) {
	threshold, needed := -0.4, 120.0
	known := []risk.Summary{
		{Route: "llama-3", TrafficClass: "to_1k.0a1b2c3d", Phase: risk.PhaseCertified, MaxDisagreement: .1, ErrorProbability: .05, Op: 4, Threshold: &threshold, Acceptance: .2,
			Audits: 300, Bad: 3, Pending: 1, Estimate: .01, Low: .002, High: .04, Bound: .05, ToCertify: &needed, Drift: .2},
		{Route: "other", TrafficClass: "to_4k.0a1b2c3d", Phase: risk.PhaseInfeasible, High: 1, Bound: 1},
	}
	a, log := &auditor{summaries: known}, &lines{}
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Logger, o.Risk = zerolog.New(log), a })
	admin := "http://" + g.AdminAddr().String()
	for query, want := range map[string][]risk.Summary{"": known, "?route=llama-3": known[:1]} {
		status, body := g.send(t, http.MethodGet, admin+"/admin/risk"+query, "")
		var got struct{ Risk []risk.Summary }
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", status, err, body)
		}
		if diff := cmp.Diff(want, got.Risk); diff != "" {
			t.Errorf("%q: -want +got:\n%s", query, diff)
		}
	}
	for query, want := range map[string]int{"?route=nobody": http.StatusNotFound, "?rute=x": http.StatusBadRequest} {
		if status, body := g.send(t, http.MethodGet, admin+"/admin/risk"+query, ""); status != want {
			t.Errorf("%s: status %d: %s", query, status, body)
		}
	}
	a.summaries = nil
	if status, body := g.send(t, http.MethodGet, admin+"/admin/risk", ""); status != http.StatusOK || body != `{"risk":[],"refits":[]}`+"\n" {
		t.Errorf("status %d: %s", status, body)
	}
	a.err = errors.New("evidence: Redis does not answer")
	if status, body := g.send(t, http.MethodGet, admin+"/admin/risk", ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"evidence_away"`) || len(log.holding("Redis does not answer")) != 1 {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestOperatorsSeeWhatEachMaximumDisagreementWouldGive(t *testing.T) {
	more := 120.0
	known := risk.Frontiers{
		Frontiers: []risk.Frontier{
			{Key: risk.Key{Route: "llama-3", TrafficClass: "all.0a1b2c3d"}, Label: "lenient", MaxDisagreement: .1, Known: true, Audits: 1500,
				Points: []risk.FrontierPoint{{MaxDisagreement: .1, InForce: true, Share: risk.Range{Low: .2, Estimate: .3, High: .4}, Risk: risk.Range{Low: .01, Estimate: .02, High: .03}, MoreAudits: &more}}},
			{Key: risk.Key{Route: "other", TrafficClass: "all.0a1b2c3d"}, Label: "judge"},
		},
	}
	a := &auditor{frontiers: known}
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Risk = a })
	at := "http://" + g.AdminAddr().String() + "/admin/risk/frontier"
	all := known
	mine := risk.Frontiers{Frontiers: known.Frontiers[:1]}
	for query, want := range map[string]risk.Frontiers{"": all, "?route=llama-3": mine} {
		status, body := g.send(t, http.MethodGet, at+query, "")
		var got risk.Frontiers
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", status, err, body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", query, diff)
		}
	}
	a.frontiers = risk.Frontiers{}
	if status, body := g.send(t, http.MethodGet, at, ""); status != http.StatusOK || body != `{"frontiers":[],"omitted":0}`+"\n" {
		t.Errorf("status %d: %s", status, body)
	}
	a.err = errors.New("evidence: Redis does not answer")
	if status, body := g.send(t, http.MethodGet, at, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "evidence_away") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestOperatorsSeeWhereDraftsAgree(t *testing.T) {
	known := []risk.Application{
		{Route: "llama-3", Name: "acme/tickets", Drafts: 900, Audits: 80, Agreement: risk.Range{Low: .8, Estimate: .9, High: .95}, Served: .7, Disagreement: new(.02), USD: new(12.5), Tokens: new(9e5)},
		{Route: "other", Name: risk.Other, Audits: 4, Agreement: risk.Range{High: 1}},
	}
	a := &auditor{apps: known}
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Risk = a })
	at := "http://" + g.AdminAddr().String() + "/admin/risk/applications"
	for query, want := range map[string][]risk.Application{"": known, "?route=llama-3": known[:1]} {
		status, body := g.send(t, http.MethodGet, at+query, "")
		var got ApplicationsAnswer
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", status, err, body)
		}
		if diff := cmp.Diff(want, got.Applications); diff != "" {
			t.Errorf("%q: -want +got:\n%s", query, diff)
		}
	}
	a.apps = nil
	if status, body := g.send(t, http.MethodGet, at, ""); status != http.StatusOK || body != `{"applications":[]}`+"\n" {
		t.Errorf("status %d: %s", status, body)
	}
}
