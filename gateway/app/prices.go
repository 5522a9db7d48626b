package app

import (
	"fmt"
	"strings"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/pool"
)

// priceOf returns what a pool costs, by the configuration.
func priceOf(def config.Pool) pool.Price {
	return pool.Price{
		USDPerHour: def.USDPerHour, PrefillPerSecond: def.PrefillPerSecond, DecodePerSecond: def.DecodePerSecond,
		Tokens: economy.TokenPrice{Input: def.USDPerMillionInput / 1e6, Cached: def.USDPerMillionCached / 1e6, Output: def.USDPerMillionOutput / 1e6, Free: def.Free},
	}
}

// unitPrices returns a pool's configured prices of a prompt token and an answer token, in USD; 0 is not
// configured.
func unitPrices(def config.Pool) (prefill, decode float64) {
	if p := priceOf(def); def.PaidByToken() {
		return p.Tokens.Input, p.Tokens.Output
	}
	return economy.PerToken(def.USDPerHour, def.PrefillPerSecond), economy.PerToken(def.USDPerHour, def.DecodePerSecond)
}

// configuredPrices returns the configured prices of a route's tokens.
func configuredPrices(f *config.File, rt config.Route) economy.Prices {
	var p economy.Prices
	p.DraftPrefill, p.DraftDecode = unitPrices(f.Pools[rt.Draft])
	p.TargetPrefill, p.TargetDecode = unitPrices(f.Pools[rt.Target])
	return p
}

// prices returns the prices of tokens at a route's pools. The result is called once for every request that may be drafted.
func (r *routing) prices(rt config.Route) func() economy.Prices {
	draft, target := r.pool(rt.Draft), r.pool(rt.Target)
	return func() (p economy.Prices) {
		if draft != nil {
			t := draft.ExpectedPrice()
			p.DraftPrefill, p.DraftDecode = t.Input, t.Output
		}
		if target != nil {
			t := target.ExpectedPrice()
			p.TargetPrefill, p.TargetDecode = t.Input, t.Output
		}
		return p
	}
}

// defaultHoldback is the default of speculation.holdback_tokens.
const defaultHoldback = 32

// typicalRequests are the request shapes that a configuration is checked with: a chat, and a long prompt with
// a short answer (docs/science.md#cost-model).
var typicalRequests = []struct{ prompt, output int }{{500, 300}, {4000, 150}}

// economyWarnings lists routes on which drafts always lose money, and those whose prices the file does not give.
func economyWarnings(f *config.File) []string {
	var out []string
	for _, rt := range f.Routes {
		if rt.Draft == "" {
			continue
		}
		for _, v := range rt.Variants() {
			if w := draftWarning(f, v); w != "" {
				out = append(out, fmt.Sprintf("route %s: %s", rt.Model, w))
			}
		}
	}
	return out
}

// draftWarning says what is wrong with the prices of a route, "" if drafts can pay.
func draftWarning(f *config.File, rt config.Route) string {
	p := configuredPrices(f, rt)
	switch {
	case p.DraftDecode > 0 && p.TargetDecode > 0 && p.DraftDecode >= p.TargetDecode:
		return fmt.Sprintf("a draft token costs as much as a target token or more (a million: %.3f USD at %s, %.3f at %s): drafts cannot save cost; take a cheaper draft pool, or leave its draft out",
			p.DraftDecode*1e6, rt.Draft, p.TargetDecode*1e6, rt.Target)
	case p.Complete():
		return losingRequests(rt, p)
	case f.Pools[rt.Draft].USDPerHour == 0 || f.Pools[rt.Target].USDPerHour == 0 && !f.Pools[rt.Target].PaidByToken():
		return fmt.Sprintf("pools.%s or pools.%s has no usd_per_hour: nobody can tell whether drafts pay, and none is left out because it costs more than it saves", rt.Draft, rt.Target)
	}
	return fmt.Sprintf("pools.%s or pools.%s has no prefill_tokens_per_s or decode_tokens_per_s: whether drafts pay is judged by the speeds that are learned, and not before they are", rt.Draft, rt.Target)
}

// losingRequests names the requests for which a route's drafts cannot pay, "" if there are none.
func losingRequests(rt config.Route, p economy.Prices) string {
	var loses []string
	for _, r := range typicalRequests {
		served := economy.BreakEven(p, economy.Shape{Prompt: r.prompt, Holdback: defaultHoldback}, float64(r.output))
		if served <= 1 {
			continue
		}
		share := fmt.Sprintf("%.0f %% of them would have to be served", 100*served)
		if served >= economy.Never {
			share = "the more of them are served, the more it costs"
		}
		loses = append(loses, fmt.Sprintf("for prompts of %d tokens with answers of %d (%s)", r.prompt, r.output, share))
	}
	if len(loses) == 0 {
		return ""
	}
	cure := "set speculation.max_prompt_tokens to shorter prompts, or take a cheaper draft pool"
	if len(loses) == len(typicalRequests) {
		cure = "leave its draft out, or take a cheaper draft pool"
	}
	return fmt.Sprintf("drafts cannot pay %s: a million tokens cost %.3f USD (prompt) and %.3f USD (answer) at %s, %.3f and %.3f at %s; such requests will go straight to the target, so %s",
		strings.Join(loses, ", nor "), p.DraftPrefill*1e6, p.DraftDecode*1e6, rt.Draft, p.TargetPrefill*1e6, p.TargetDecode*1e6, rt.Target, cure)
}
