package cost

import (
	"fmt"
	"strings"
)

// Names of gateways of several replicas, which share a Redis and one core, as "gateway, replicas: 3".
const (
	fleetName    = newcomer + ", replicas: "
	draftingName = drafter + ", replicas: "
)

// replicasOf is how many replicas the gateway of a name has.
func replicasOf(name string) int {
	n := 1
	for _, prefix := range []string{fleetName, draftingName} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			_, _ = fmt.Sscan(rest, &n) // it was made from a number
		}
	}
	return n
}

// drafts reports whether the gateway of a name accepts drafts from the first request on.
func drafts(name string) bool { return strings.HasPrefix(name, drafter) }

// replicated compares several replicas with one, on the same core: what it costs to serve the same load with more processes, which
// share what they know through Redis. Connections are dealt out in turn. On a core that has nothing else to do throughput is one
// over this ratio.
func replicated(f form) group {
	g := group{}
	counts := []int{2, 3}
	if f.rounds <= shortForm.rounds {
		counts = []int{3}
	}
	for _, w := range replicatedLoads(f) {
		one := w(1)
		g.workloads = append(g.workloads, one)
		for _, n := range counts {
			own := w(n)
			g.workloads = append(g.workloads, own)
			g.rows = append(g.rows, row{title: fmt.Sprintf("%s replicas beside one, %s", own.title, unit(own)), own: own.title, beside: one.title})
		}
	}
	return g
}

// replicatedLoads are loads of a number of replicas.
func replicatedLoads(f form) []func(replicas int) workload {
	plain, noStore := chat{size: 1 << 10, tokens: shortAnswer}, chat{size: 1 << 10, tokens: shortAnswer, noStore: true}
	name := func(what string, n int) string { return fmt.Sprintf("%s, %d", what, n) }
	return []func(int) workload{
		func(n int) workload {
			return f.continuous(name("miss, 1 KiB", n), fmt.Sprint(fleetName, n), plain.exchange(), missed)
		},
		func(n int) workload {
			return f.continuous(name("no-store, 1 KiB", n), fmt.Sprint(fleetName, n), noStore.exchange(), bypassed)
		},
		func(n int) workload { return f.repeated(name("hit", n), fmt.Sprint(fleetName, n), hitLocal) },
		func(n int) workload {
			c := chat{tokens: streamTokens, pause: streamPause, tier: "auto"}
			return f.streams(name("judged stream, paced", n), fmt.Sprint(draftingName, n), c, accepted(streamTokens))
		},
	}
}
