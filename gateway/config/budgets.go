package config

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/internal/yamlfile"
)

// Budget is what a tenant may spend in a window of the UTC calendar: dollars or tokens.
type Budget struct {
	USD         float64 // 0: the budget is in tokens
	Tokens      float64 // whole; 0: the budget is in dollars
	Per         string  // hour, day or month
	OnRedisLoss string  // share (the default) or deny
}

// What a budget does while Redis is away.
const (
	OnLossShare = "share"
	OnLossDeny  = "deny"
)

// readBudgets reads a tenant's budgets.
func readBudgets(list yamlfile.Value) []Budget {
	var all []Budget
	for _, v := range list.Items() {
		def := Budget{OnRedisLoss: OnLossShare}
		b := v.Fields()
		b.At("usd").Number(&def.USD, 0.000_001, 1_000_000)
		b.At("tokens").Number(&def.Tokens, 1, 1e15)
		b.At("per").Choice(&def.Per, "hour", "day", "month")
		b.At("on_redis_loss").Choice(&def.OnRedisLoss, OnLossShare, OnLossDeny)
		b.Done()
		all = append(all, def)
	}
	return all
}

// checkBudgets checks a tenant's budgets.
func (r reader) checkBudgets(path string, all []Budget) {
	seen := map[string]int{}
	for i, b := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		usd, tokens := r.Has(at+".usd"), r.Has(at+".tokens")
		switch {
		case usd && tokens:
			r.Fail(at, "has usd and tokens; make it two budgets")
			continue
		case !usd && !tokens:
			r.Fail(at, "has neither usd nor tokens; give one, such as {usd: 50, per: day}")
			continue
		case tokens && r.Sound(at+".tokens") && b.Tokens != math.Trunc(b.Tokens):
			r.Fail(at+".tokens", "want a whole number")
		}
		if !r.Has(at + ".per") {
			r.Fail(at+".per", "missing; want one of hour, day, month")
			continue
		}
		kind := fmt.Sprintf("%t %s", usd, b.Per)
		if first, twice := seen[kind]; twice && r.Sound(at+".per") {
			r.Fail(at, "%s[%d] has the same unit and period; keep one of them", path, first)
			continue
		}
		seen[kind] = i
	}
}
