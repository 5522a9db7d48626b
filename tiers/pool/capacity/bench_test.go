package capacity

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkForecast computes a forecast of requests whose answers come in one piece, as each pick does.
func BenchmarkForecast(b *testing.B) {
	for _, running := range []int{64, 1000} {
		b.Run(fmt.Sprint(running), func(b *testing.B) {
			start := time.Now() // with a monotonic reading, as in the gateway
			a := NewAccount(start)
			for i := range running {
				began := start.Add(time.Duration(i) * time.Millisecond)
				a.Start(&Request{Began: began, Output: 100 + i%300, Variance: 100, Whole: true}, Totals{Requests: 1, Waiting: 1, Queued: 10, PromptTokens: 500})
			}
			now := start.Add(3 * time.Second)
			for b.Loop() {
				a.forecast.stale = true
				a.forecast.of(a.requests, now, speed)
			}
		})
	}
}
