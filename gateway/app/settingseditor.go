package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
)

// settingsEditor lets operators change settings at the admin listener.
type settingsEditor struct{ store *settings.Store }

// NewSettingsEditor makes one that writes where store does.
func NewSettingsEditor(store *settings.Store) gateway.Desk { return settingsEditor{store} }

// settingsEditor is the one of this replica, nil where no Redis has settings.
func (a *App) settingsEditor() gateway.Desk {
	if a.Options.Stores.Settings == nil {
		return nil
	}
	return NewSettingsEditor(settings.NewStore(a.Options.Stores.Settings, a.routes()))
}

// Change sets and unsets settings.
func (e settingsEditor) Change(ctx context.Context, o gateway.SettingsOrder) (gateway.SettingsChange, error) {
	return changed(e.store.Set(ctx, settings.Order{Who: o.Who, Why: o.Why, DryRun: o.DryRun}, o.Set, o.Unset))
}

// Rollback restores a version.
func (e settingsEditor) Rollback(ctx context.Context, o gateway.SettingsOrder, version int64) (gateway.SettingsChange, error) {
	why := o.Why
	if why == "" {
		why = fmt.Sprintf("back to version %d", version)
	}
	return changed(e.store.Rollback(ctx, settings.Order{Who: o.Who, Why: why, DryRun: o.DryRun}, version))
}

// History is the last of the log.
func (e settingsEditor) History(ctx context.Context, n int) ([]gateway.SettingsEntry, error) {
	entries := []gateway.SettingsEntry{}
	err := e.store.History(ctx, func(entry settings.Entry) bool {
		entries = append(entries, gateway.SettingsEntry{
			ID: entry.ID, Version: entry.Version, When: entry.At().UTC(), Who: entry.Who, Why: entry.Why, Changes: settingChanges(entry.Changes),
		})
		return len(entries) < n
	})
	return entries, editorError(err)
}

func changed(a settings.Result, err error) (gateway.SettingsChange, error) {
	if err != nil {
		return gateway.SettingsChange{}, editorError(err)
	}
	return gateway.SettingsChange{Version: a.Version, Changes: settingChanges(a.Changes), Found: settingChanges(a.Found), Notes: append([]string{}, a.Notes...)}, nil
}

func settingChanges(all []settings.Change) []gateway.SettingChange {
	out := make([]gateway.SettingChange, 0, len(all))
	for _, c := range all {
		out = append(out, gateway.SettingChange(c))
	}
	return out
}

// editorError is an error as a [gateway.Desk] returns it.
func editorError(err error) error {
	var refused *settings.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &gateway.SettingsRefused{Problems: refused.Problems}
	case strings.Contains(err.Error(), "NOPERM"):
		return fmt.Errorf("%w: %w", gateway.ErrSettingsReadOnly, err)
	}
	return err
}
