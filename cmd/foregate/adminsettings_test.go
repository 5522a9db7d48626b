package main

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
)

// deskAt is the desk of a replica whose file says so of Redis.
func deskAt(t *testing.T, r config.Redis) gateway.SettingsEditor {
	t.Helper()
	opened, stop, err := stores.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return app.NewSettingsEditor(func() *settings.Store { return settings.NewStore(opened.Settings, []string{"llama-3"}) })
}

func TestOperatorsChangeSettingsAtAReplicaAsTheUserWhoMay(t *testing.T) {
	n := guardedRedis(t)
	own := "redis://foregate:foregate@" + n.addr
	order := gateway.SettingsEdit{Who: "ann", Why: "night", Set: map[string]string{"shed.low": "0.7", "speculation.mode@llama-3": "off"}}
	if _, err := deskAt(t, config.Redis{URL: own}).Change(t.Context(), order); !errors.Is(err, gateway.ErrSettingsReadOnly) {
		t.Errorf("with the replica's own user: %v", err)
	}
	d := deskAt(t, config.Redis{URL: own, SettingsURL: "redis://operator:operator@" + n.addr})
	dry := order
	dry.DryRun = true
	for _, o := range []gateway.SettingsEdit{dry, order} {
		got, err := d.Change(t.Context(), o)
		if err != nil || len(got.Changes) != 2 || (got.Version != 0) == o.DryRun {
			t.Errorf("%+v %v", got, err)
		}
	}
	if got := n.do(t, "HGET", settings.Key, "shed.low"); got != "0.7" {
		t.Errorf("in Redis it is %v", got)
	}
	var refused *gateway.SettingsRejected
	if _, err := d.Change(t.Context(), gateway.SettingsEdit{Set: map[string]string{"shed.low": "7", "nonsense": "1"}}); !errors.As(err, &refused) || len(refused.Problems) != 2 {
		t.Errorf("nonsense: %v", err)
	}
	if _, err := d.Rollback(t.Context(), gateway.SettingsEdit{Who: "bob"}, 0); err != nil {
		t.Error(err)
	}
	entries, err := d.History(t.Context(), 1)
	if err != nil || len(entries) != 1 || entries[0].Who != "bob" || entries[0].Why != "back to version 0" || len(entries[0].Changes) != 2 || entries[0].When.IsZero() {
		t.Errorf("%+v %v", entries, err)
	}
	n.kill()
	if _, err := d.History(t.Context(), 1); err == nil || errors.Is(err, gateway.ErrSettingsReadOnly) {
		t.Errorf("without Redis: %v", err)
	}
}
