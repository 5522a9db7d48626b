package app

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/refit"
)

// refitting is as much of a replica as refits need.
func refitting(t *testing.T, s stores.Stores) *App {
	t.Helper()
	a := &App{Options: Options{Stores: s, Logger: zerolog.Nop()}}
	a.routing.Store(&routing{
		file: &config.File{Routes: []config.Route{{Model: "chat"}}}, scores: map[string]*atomic.Pointer[parsedScore]{"chat": new(atomic.Pointer[parsedScore])},
	})
	a.makeSettings(t.Context())
	a.makeEvidence()
	a.makeRefits()
	return a
}

func TestARefitChangesTheSettingThatItDecidedBy(t *testing.T) {
	client := redistest.Client(t, redistest.Background(redistest.Start(t).Addr))
	a := refitting(t, stores.Stores{Control: client, Settings: client})
	if at := a.refitRoute("chat"); !at.Auto || at.Live != 0 || at.Set || at.Rule.MaxWrongRate != .1 {
		t.Fatalf("%+v", at)
	}
	promote := func(from, to int) error {
		err := a.promoteScore(t.Context(), refit.Promotion{Route: "chat", From: from, To: to, Why: "certified"})
		_ = a.Settings.Poll(t.Context())
		return err
	}
	if err := promote(0, 3); err != nil {
		t.Fatal(err)
	}
	if at := a.refitRoute("chat"); at.Live != 3 || !at.Set {
		t.Errorf("%+v", at)
	}
	if err := promote(0, 4); err == nil || errors.Is(err, refit.ErrReadOnly) || a.refitRoute("chat").Live != 3 {
		t.Errorf("%v: version %d replaces one that nobody decided about", err, a.refitRoute("chat").Live)
	}
	if err := promote(3, 4); err != nil || a.refitRoute("chat").Live != 4 {
		t.Errorf("%v: version %d", err, a.refitRoute("chat").Live)
	}
	desk := settings.NewStore(client, []string{"chat"})
	var whos []string
	if err := desk.History(t.Context(), func(e settings.Entry) bool { whos = append(whos, e.Who+" "+e.Why); return true }); err != nil || len(whos) != 2 || whos[0] != "refit certified" {
		t.Errorf("%v: %q", err, whos)
	}
	if _, err := desk.Set(t.Context(), settings.Edit{}, map[string]string{"risk.refit": "off"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = a.Settings.Poll(t.Context())
	if a.refitRoute("chat").Auto || len(a.refitViews()) != 0 {
		t.Error("refits are off")
	}
}

func TestWhereSettingsCannotBeChangedARefitSaysSo(t *testing.T) {
	a := refitting(t, stores.Stores{})
	if err := a.promoteScore(t.Context(), refit.Promotion{Route: "chat", To: 1}); !errors.Is(err, refit.ErrReadOnly) {
		t.Error(err)
	}
}

func TestACalibratedScoreIsParsedOnceAndReadAgainWhenItIsAnother(t *testing.T) {
	a := refitting(t, stores.Stores{})
	rng := rand.New(rand.NewPCG(1, 1))
	save := func() int {
		t.Helper()
		samples := make([]calibrate.Sample, calibrate.MinSamples)
		for i := range samples {
			samples[i].Features[0] = rng.NormFloat64()
			samples[i].Good = samples[i].Features[0]+rng.NormFloat64() > -1
		}
		f, err := calibrate.Fit(samples)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		version, err := a.evidence.SaveMap(t.Context(), "chat", raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	first, second := save(), save()
	m := a.calibrated("chat", first)
	if m == nil || m.Version != first || a.calibrated("chat", first) != m {
		t.Fatalf("%+v", m)
	}
	if other := a.calibrated("chat", second); other == nil || other.Version != second || other.Weights == m.Weights {
		t.Errorf("%+v", other)
	}
	if back := a.calibrated("chat", first); back == nil || *back != *m {
		t.Errorf("%+v", back)
	}
	foreign, _ := a.evidence.SaveMap(t.Context(), "chat", []byte(`{}`), 0)
	if a.calibrated("chat", foreign) != nil || a.calibrated("chat", 99) != nil || a.calibrated("none", 1) != nil {
		t.Error("a score that is none")
	}
}
