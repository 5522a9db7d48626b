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
type settingsEditor struct{ store func() *settings.Store }

// NewSettingsEditor makes an editor that writes to what store returns; it is called for each use, because a reload
// changes the routes that may have settings.
func NewSettingsEditor(store func() *settings.Store) gateway.SettingsEditor {
	return settingsEditor{store}
}

// settingsEditor returns this replica's editor, nil if no Redis has settings.
func (a *App) settingsEditor() gateway.SettingsEditor {
	if a.Options.Stores.Settings == nil {
		return nil
	}
	return NewSettingsEditor(func() *settings.Store { return settings.NewStore(a.Options.Stores.Settings, a.routes()) })
}

// Change sets and unsets settings.
func (e settingsEditor) Change(ctx context.Context, o gateway.SettingsEdit) (gateway.SettingsEditResult, error) {
	return changed(e.store().Set(ctx, settings.Edit{Who: o.Who, Why: o.Why, DryRun: o.DryRun}, o.Set, o.Unset))
}

// Rollback restores a version.
func (e settingsEditor) Rollback(ctx context.Context, o gateway.SettingsEdit, version int64) (gateway.SettingsEditResult, error) {
	why := o.Why
	if why == "" {
		why = fmt.Sprintf("back to version %d", version)
	}
	return changed(e.store().Rollback(ctx, settings.Edit{Who: o.Who, Why: why, DryRun: o.DryRun}, version))
}

// History returns the last changes.
func (e settingsEditor) History(ctx context.Context, n int) ([]gateway.SettingsLogEntry, error) {
	entries := []gateway.SettingsLogEntry{}
	err := e.store().History(ctx, func(entry settings.Entry) bool {
		entries = append(entries, gateway.SettingsLogEntry{
			ID: entry.ID, Version: entry.Version, When: entry.At().UTC(), Who: entry.Who, Why: entry.Why, Changes: settingChanges(entry.Changes),
		})
		return len(entries) < n
	})
	return entries, editorError(err)
}

func changed(a settings.Result, err error) (gateway.SettingsEditResult, error) {
	if err != nil {
		return gateway.SettingsEditResult{}, editorError(err)
	}
	return gateway.SettingsEditResult{Version: a.Version, Changes: settingChanges(a.Changes), Found: settingChanges(a.Found), Notes: append([]string{}, a.Notes...)}, nil
}

func settingChanges(all []settings.Change) []gateway.SettingChange {
	out := make([]gateway.SettingChange, 0, len(all))
	for _, c := range all {
		out = append(out, gateway.SettingChange(c))
	}
	return out
}

// editorError converts an error to one of a [gateway.SettingsEditor].
func editorError(err error) error {
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
