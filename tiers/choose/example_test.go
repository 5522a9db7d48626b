package choose_test

import (
	"fmt"

	"github.com/foregate/foregate/tiers/choose"
)

// A backend with the prompt in its KV cache is worth waiting for, but not at any price.
func ExampleChoose() {
	backends := []choose.Candidate{
		{Usage: 0.5, Capacity: 100_000, PrefillRate: 5000},
		{Usage: 0.5, Capacity: 100_000, PrefillRate: 5000, Cached: 3900, Waiting: 1, MeanPrompt: 2000},
	}
	request := choose.Request{PromptTokens: 4000, OutputTokens: 200}
	fmt.Println("one prompt in its queue:", choose.Choose(choose.PolicyFit, backends, request, 0))
	backends[1].Waiting = 9
	fmt.Println("nine prompts in its queue:", choose.Choose(choose.PolicyFit, backends, request, 0))
	// Output:
	// one prompt in its queue: 1
	// nine prompts in its queue: 0
}
