package main

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/stores"
)

// deskAt is the settings of a replica whose file says so of Redis.
func deskAt(t *testing.T, r config.Redis) *settings.Store {
	t.Helper()
	opened, stop, err := stores.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return settings.NewStore(opened.Settings, []string{"llama-3"})
}

func TestOperatorsChangeSettingsAtAReplicaAsTheUserWhoMay(t *testing.T) {
	n := guardedRedis(t)
	own := config.Endpoint{Kind: config.KindSingle, Network: "tcp", Addrs: []string{n.Addr}, Username: "foregate", Password: "foregate"}
	operator := own
	operator.Username, operator.Password = "operator", "operator"
	order := settings.Edit{Who: "ann", Why: "night"}
	set := map[string]string{"shed.low": "0.7", "speculation.mode@llama-3": "off"}
	if _, err := deskAt(t, config.Redis{URL: own}).Set(t.Context(), order, set, nil); !settings.IsForbidden(err) {
		t.Errorf("with the replica's own user: %v", err)
	}
	d := deskAt(t, config.Redis{URL: own, SettingsURL: operator})
	dry := order
	dry.DryRun = true
	for _, o := range []settings.Edit{dry, order} {
		got, err := d.Set(t.Context(), o, set, nil)
		if err != nil || len(got.Changes) != 2 || (got.Version != 0) == o.DryRun {
			t.Errorf("%+v %v", got, err)
		}
	}
	if got := n.Do("HGET", settings.Key, "shed.low"); got != "0.7" {
		t.Errorf("in Redis it is %v", got)
	}
	var refused *settings.RefusedError
	if _, err := d.Set(t.Context(), settings.Edit{}, map[string]string{"shed.low": "7", "nonsense": "1"}, nil); !errors.As(err, &refused) || len(refused.Problems) != 2 {
		t.Errorf("nonsense: %v", err)
	}
	if _, err := d.Rollback(t.Context(), settings.Edit{Who: "bob"}, 0); err != nil {
		t.Error(err)
	}
	var last settings.Entry
	newest := func(e settings.Entry) bool { last = e; return false }
	if err := d.History(t.Context(), newest); err != nil || last.Who != "bob" || len(last.Changes) != 2 || last.When.IsZero() {
		t.Errorf("%+v %v", last, err)
	}
	n.Kill()
	if err := d.History(t.Context(), newest); err == nil || settings.IsForbidden(err) {
		t.Errorf("without Redis: %v", err)
	}
}
