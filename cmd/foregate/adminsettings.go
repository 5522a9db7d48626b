package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/settings"
)

// adminDesk is where operators change settings at the admin listener.
type adminDesk struct{ store *settings.Store }

// openDesk connects to the Redis where settings are written, when somebody first does. Settings of
// an embedded Redis are written there. nil is none.
func openDesk(r config.Redis, files passwords, embedded redis.UniversalClient) (client redis.UniversalClient, stop func(), err error) {
	ep, err := r.SettingsEndpoint()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("redis.settings_url: %w", err)
	case ep.Kind == config.KindNone:
		return nil, func() {}, nil
	case ep.Kind == config.KindEmbedded:
		return embedded, func() {}, nil
	}
	if client, err = patiently(ep, files); err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil // only connections are lost
}

// desk is the one for a replica, nil where no Redis has settings.
func (r *replica) desk() gateway.SettingsEditor {
	if r.writer == nil {
		return nil
	}
	return adminDesk{settings.NewStore(r.writer, inside{replica: r}.routes())}
}

// Change sets and unsets settings.
func (d adminDesk) Change(ctx context.Context, o gateway.SettingsEdit) (gateway.SettingsEditResult, error) {
	return changed(d.store.Set(ctx, settings.Edit{Who: o.Who, Why: o.Why, DryRun: o.DryRun}, o.Set, o.Unset))
}

// Rollback restores a version.
func (d adminDesk) Rollback(ctx context.Context, o gateway.SettingsEdit, version int64) (gateway.SettingsEditResult, error) {
	why := o.Why
	if why == "" {
		why = fmt.Sprintf("back to version %d", version)
	}
	return changed(d.store.Rollback(ctx, settings.Edit{Who: o.Who, Why: why, DryRun: o.DryRun}, version))
}

// History is the last of the log.
func (d adminDesk) History(ctx context.Context, n int) ([]gateway.SettingsLogEntry, error) {
	entries := []gateway.SettingsLogEntry{}
	err := d.store.History(ctx, func(e settings.Entry) bool {
		entries = append(entries, gateway.SettingsLogEntry{ID: e.ID, Version: e.Version, When: e.At().UTC(), Who: e.Who, Why: e.Why, Changes: settingChanges(e.Changes)})
		return len(entries) < n
	})
	return entries, deskError(err)
}

func changed(r settings.Result, err error) (gateway.SettingsEditResult, error) {
	if err != nil {
		return gateway.SettingsEditResult{}, deskError(err)
	}
	return gateway.SettingsEditResult{Version: r.Version, Changes: settingChanges(r.Changes), Found: settingChanges(r.Found), Notes: append([]string{}, r.Notes...)}, nil
}

func settingChanges(all []settings.Change) []gateway.SettingChange {
	out := make([]gateway.SettingChange, 0, len(all))
	for _, c := range all {
		out = append(out, gateway.SettingChange(c))
	}
	return out
}

// deskError is an error as a Desk's.
func deskError(err error) error {
	var refused *settings.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &gateway.SettingsRejected{Problems: refused.Problems}
	case strings.Contains(err.Error(), "NOPERM"):
		return fmt.Errorf("%w: %w", gateway.ErrSettingsReadOnly, err)
	}
	return err
}
