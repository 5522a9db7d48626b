package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/settings"
)

// The settings that a replay understands.
const (
	setMode      = "speculation.mode"
	setThreshold = "speculation.threshold_nats"
	setHoldback  = "speculation.holdback_tokens"
	setGuard     = "economy.guard"
	setMaxTTFT   = "speculation.max_extra_ttft_ms"
)

// SettingNames are the settings that a replay understands.
func SettingNames() []string {
	return []string{setMode, setThreshold, setHoldback, setGuard, setMaxTTFT}
}

// Change is what other settings there would have been.
type Change struct {
	values *settings.Snapshot
	names  map[string]bool // as they were given, with @route
}

// Parse reads settings, each NAME=VALUE or NAME@ROUTE=VALUE. The error names the first that
// is refused, and why.
func Parse(sets []string) (*Change, error) {
	c := &Change{names: map[string]bool{}}
	hash := map[string]string{}
	var routes []string
	for _, s := range sets {
		name, value, ok := strings.Cut(s, "=")
		base, route, onRoute := strings.Cut(name, "@")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: want NAME=VALUE", s)
		case !slices.Contains(SettingNames(), base):
			return nil, fmt.Errorf("%s: receipts cannot tell what it would have done; they can of %s", name, strings.Join(SettingNames(), ", "))
		case c.names[name]:
			return nil, fmt.Errorf("%s: given twice", name)
		case base == setMode && value != modeOff && value != modeConfidence:
			return nil, fmt.Errorf("%s: receipts can tell of off and confidence only: what the target would have said of a draft is not known", name)
		}
		if err := settings.Validate(name, value); err != nil {
			return nil, err
		}
		if onRoute && !slices.Contains(routes, route) {
			routes = append(routes, route)
		}
		hash[name], c.names[name] = value, true
	}
	snapshot, refused := settings.FromHash(hash, routes, nil)
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s: %s", refused[0].Name, refused[0].Reason)
	}
	c.values = snapshot
	return c, nil
}

// has reports whether a setting is changed for a route.
func (c *Change) has(name, route string) bool { return c.names[name] || c.names[name+"@"+route] }

// knobs are the settings of one receipt's route.
type knobs struct {
	mode      string
	threshold float64
	holdback  int // 0 is unknown
	stays     bool
	guard     bool
	maxTTFT   float64 // milliseconds; 0 is no bound
}

// was are the settings that a receipt was made under, as far as it tells.
func was(r *Receipt) knobs {
	k := knobs{mode: modeConfidence, guard: true}
	if s := r.Rules; s != nil {
		k = knobs{mode: s.Mode, holdback: max(s.Holdback, 1), stays: !s.MidstreamFailover, guard: s.Guard, maxTTFT: s.MaxTTFT}
	}
	if r.Verdict != nil {
		k.threshold = r.Verdict.Threshold
	}
	return k
}

// would are those settings with the changes.
func (c *Change) would(r *Receipt) knobs {
	k := was(r)
	v := c.values.Route(r.Route).Tiers
	if c.has(setMode, r.Route) {
		k.mode = string(v.Mode)
	}
	if c.has(setThreshold, r.Route) {
		k.threshold = float64(v.Accept.Threshold)
	}
	if c.has(setHoldback, r.Route) {
		k.holdback = max(v.HoldbackTokens, 1)
	}
	if c.has(setGuard, r.Route) {
		k.guard = v.Economy.Enabled
	}
	if c.has(setMaxTTFT, r.Route) {
		k.maxTTFT = float64(v.Economy.MaxExtraTTFT.Microseconds()) / 1000
	}
	return k
}
