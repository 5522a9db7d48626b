package economy_test

import (
	"fmt"

	"github.com/foregate/foregate/tiers/economy"
)

// A chat of 500 prompt tokens and 300 answer tokens, on an A10G before two H100 at list prices: drafts pay if
// more than 14 % of them are accepted.
func ExampleBreakEven() {
	prices := economy.Prices{
		DraftPrefill: economy.PerToken(1.006, 1960), DraftDecode: economy.PerToken(1.006, 1400),
		TargetPrefill: economy.PerToken(2*6.88, 11200), TargetDecode: economy.PerToken(2*6.88, 2600),
	}
	fmt.Printf("%.2f\n", economy.BreakEven(prices, economy.Shape{Prompt: 500, Holdback: 32}, 300))
	fmt.Printf("%.2f\n", economy.BreakEven(prices, economy.Shape{Prompt: 4000, Holdback: 32}, 150))
	// Output:
	// 0.14
	// 0.37
}
