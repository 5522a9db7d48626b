package config

import (
	"fmt"
	"math"
)

// Budget is what a tenant may spend in a window of the UTC calendar: dollars or tokens.
type Budget struct {
	USD         float64 `yaml:"usd" min:"0.000001" max:"1000000"`                  // 0: the budget is in tokens
	Tokens      float64 `yaml:"tokens" min:"1" max:"1e15"`                         // whole; 0: the budget is in dollars
	Per         string  `yaml:"per" choice:"hour,day,month"`                       // hour, day or month
	OnRedisLoss string  `yaml:"on_redis_loss" default:"share" choice:"share,deny"` // share (the default) or deny
}

// What a budget does while Redis is away.
const (
	OnLossShare = "share"
	OnLossDeny  = "deny"
)

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
