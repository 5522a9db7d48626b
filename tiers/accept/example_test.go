package accept_test

import (
	"fmt"

	"github.com/foregate/foregate/tiers/accept"
)

// A draft is judged token by token. The score is the least value so far, so a draft that fell below the
// threshold can be aborted at once.
func ExampleScoreTracker() {
	tracker := accept.NewScoreTracker(accept.Config{Threshold: 0})
	logprobs := []float64{-.1, -.05, -.2, -.1, -.1, -.05, -.1, -.1, -.1, -4, -5, -6, -7}
	for i, logprob := range logprobs {
		if tracker.Add(logprob, nil); tracker.Rejected() {
			fmt.Println("rejected at token", i+1)
			break
		}
	}
	verdict := tracker.EarlyVerdict()
	fmt.Printf("%v %s %.2f\n", verdict.Accept, verdict.Reason, float64(verdict.Score))
	// Output:
	// rejected at token 11
	// false low_score -0.18
}
