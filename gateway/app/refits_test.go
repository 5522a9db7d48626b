package app

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/refit"
)

// refitting is as much of a replica as refits need.
func refitting(t *testing.T, s stores.Stores) *App {
	t.Helper()
	a := &App{Options: Options{Stores: s, Logger: zerolog.Nop()}}
	a.routing.Store(&routing{file: &config.File{Routes: []config.Route{{Model: "chat", Draft: "small"}, {Model: "without"}}}})
	a.makeSettings(t.Context())
	a.makeEvidence()
	return a
}

func TestRequestsGoByTheFittedScoreInForceUnlessRefitsAreOff(t *testing.T) {
	client := redistest.Client(t, redistest.Background(redistest.Start(t).Addr))
	a := refitting(t, stores.Stores{Control: client, Settings: client})
	if rules := a.refitRules(); len(rules) != 1 || rules["chat"].MaxDisagreement != .1 { // without a draft there is no score
		t.Fatalf("%+v", rules)
	}
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 0 || cfg.Accept.ScoreMap != nil {
		t.Errorf("version %d of nothing", cfg.Accept.ScoreVersion())
	}
	live := accept.ScoreMap{Version: 3, Bias: 2, Weights: accept.Features{1}}
	record := refit.Progress{Live: live, Last: 4, Fitted: time.Now(), Samples: 600}.Encode()
	if done, err := a.Evidence.WriteRefit(t.Context(), "chat", "", record); !done || err != nil {
		t.Fatal(done, err)
	}
	a.refits.Mine = func(string, string) bool { return true }
	a.refits.Round(t.Context())
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 3 || cfg.Accept.ScoreMap == nil || *cfg.Accept.ScoreMap != live {
		t.Errorf("version %d, %+v", cfg.Accept.ScoreVersion(), cfg.Accept.ScoreMap)
	}
	desk := settings.NewStore(client, []string{"chat"})
	if _, err := desk.Set(t.Context(), settings.Edit{}, map[string]string{"risk.refit": "off"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = a.Settings.Poll(t.Context())
	if cfg := a.tiersConfig("chat"); cfg.Accept.ScoreVersion() != 0 || cfg.Accept.ScoreMap != nil || len(a.refitRules()) != 0 || a.refits.Progress("chat").Candidate.Version != 0 {
		t.Error("refits are off")
	}
}
