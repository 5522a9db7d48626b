package display

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/pool"

	"github.com/foregate/foregate/internal/golden"
)

// fullStatus is the status of a replica that has it all.
func fullStatus() gateway.Status {
	half, old := 0.254, 95.0
	return gateway.Status{
		Version: "v1.4.0 0123456789abcdef", Uptime: 3*86400 + 4*3600, Ready: "no route can serve: no backend is up", InFlight: 12,
		Routes:   []gateway.RouteState{{Route: "llama-3", State: gateway.RouteDown}, {Route: "qwen", Ready: true, State: gateway.RouteOK}},
		Replicas: []string{"a1", "b2", "c3"},
		Redis:    gateway.RedisView{Name: "sentinel a:26379,b:26379 master fg with TLS", Level: "local", Since: 1.2, LostData: 90, Why: "read tcp 10.0.0.1:5000->10.0.0.2:6379: i/o timeout"},
		Cache:    &gateway.CacheTotals{Requests: 1234, HitRatio: 0.413, SavedTokens: 567890, SavedUSD: 3.216},
		Settings: gateway.SettingsView{
			Age:      0.4,
			Changed:  []gateway.SettingView{{Name: "shed.low", Value: "0", Default: "0.85"}, {Name: "timeout.stream_idle@llama-3", Value: "5s", Default: "20s"}},
			Rejected: []settings.RejectedValue{{Name: "shed.normal", Value: "ban\x1bana", Reason: "not a decimal number; want 0 … 1"}},
			Unknown:  []settings.RejectedValue{{Name: "shed.lo", Value: strings.Repeat("x", 64), Reason: "unknown setting"}},
			Lost:     []settings.Change{{Name: "speculation.mode@llama-3", Old: new("off")}, {Name: "shed.high", New: new("0")}},
			Switches: []string{"shed.low is 0: the whole class is turned away"},
		},
		Files: []files.State{
			{Setting: "tenants_file", Age: 7300, Changes: 2, Error: "tenants_file:3: tenants[0].rpm: want a whole number\x1b, got text; and something long that does not fit\ntenants_file:5: x\ntenants_file:6: y"},
			{Setting: "cache.seal_keys_file", Age: 3, WorldReadable: true, Error: "line 2: the secret has 5 characters; want 32 … 4096"},
			{Setting: "identity.jwt.jwks_file", Age: 70},
		},
		Breakers: []gateway.BreakerView{{Pool: "small", Backend: "10.0.0.7-8000", State: "open", SecondsLeft: 3.25}, {Pool: "small", Backend: "10.0.0.8-8000", State: "half-open", SecondsLeft: 70, OpenHereOnly: true}},
		Pools: []gateway.PoolView{
			{Pool: "large", Backends: []pool.Backend{{ID: "h100", State: "up", KVUsage: &half, InFlight: 3, Age: &half}}},
			{Pool: "small", Backends: []pool.Backend{
				{ID: "10.0.0.7-8000", State: "down", Why: "dial tcp 10.0.0.7:8000: connect: connection refused, and a lot more that nobody reads", KVUsage: &half, Age: &old},
				{ID: "a-backend-with-a-name-that-is-much-too-long-for-a-column-8000", State: "drained", Why: "maintenance"},
			}},
		},
		Fallbacks: []gateway.FallbackView{
			{Route: "llama-3", Pool: "hosted", When: []string{"unavailable", "shed"}, Spent: gateway.BudgetView{Limit: 20, Used: 3.2, Reserved: .05, Shared: true}},
			{Route: "qwen", Pool: "hosted", When: []string{"unavailable"}, Spent: gateway.BudgetView{Limit: 1}},
		},
		Targets: []gateway.TargetsView{
			{Route: "llama-3", Targets: []gateway.TargetView{{Pool: "large", Share: .95}, {Pool: "new", Share: .05, Diverted: true, UnavailableModes: []gateway.UnavailableView{{Name: "verify", Reason: "pool new: no prompt_logprobs"}}}}},
		},
		Shedding: []gateway.SheddingView{{Pool: "small", Priorities: []string{"low", "normal"}}},
	}
}

func TestTheStatusTellsEverything(t *testing.T) {
	var b strings.Builder
	Status(&b, fullStatus())
	b.WriteString("\n---\n\n")
	Status(&b, gateway.Status{Version: "v1.4.0", Uptime: 61, Ready: "yes", Replicas: []string{"a1"}, Redis: gateway.RedisView{Level: "local", Since: 61}})
	golden.Check(t, "testdata/status.txt", b.String())
	if strings.ContainsAny(b.String(), "\x1b\t") {
		t.Errorf("a terminal obeys:\n%s", b.String())
	}
}
