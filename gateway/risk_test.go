package gateway

import (
	"slices"
	"testing"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

func TestApplicationsHaveWhatOperatorsSetForThem(t *testing.T) {
	set, rejected := settings.FromHash(map[string]string{
		"speculation.mode@b": "shadow", "speculation.mode@b#acme/sums": "risk", "speculation.mode@a#acme/poems": "off", "application.name@a#acme/poems": "poems",
		"speculation.mode@a#acme/unseen": "verify",
	}, []string{"a", "b"}, nil)
	if len(rejected) > 0 {
		t.Fatal(rejected)
	}
	saved := 3.0
	row := func(route, name string) risk.Application {
		return risk.Application{Route: route, Name: name, SavedUSD: &saved, ApplicationState: risk.ApplicationState{Phase: risk.PhaseCertified}}
	}
	views := applicationViews([]risk.Application{row("a", "acme/poems"), row("b", "acme/sums"), row("b", "acme/others")}, []RouteState{{Route: "a"}, {Route: "b"}}, set)
	type seen struct {
		name, label string
		mode        plan.Mode
		own         bool
		phase       risk.Phase
		saves       bool
	}
	var got []seen
	for _, v := range views {
		got = append(got, seen{v.Route + " " + v.Name, v.Label, v.Mode, v.OwnMode, v.Phase, v.SavedUSD != nil})
	}
	want := []seen{
		{"a acme/poems", "poems", plan.ModeOff, true, risk.PhaseOff, false},
		{"a acme/unseen", "", plan.ModeVerify, true, risk.PhaseLearning, false},
		{"b acme/sums", "", plan.ModeRisk, true, risk.PhaseCertified, true},
		{"b acme/others", "", plan.ModeShadow, false, risk.PhaseCertified, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
