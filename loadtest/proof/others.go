package proof

import "strings"

// other is a proof that takes a command of its own.
type other struct{ claim, command, where string }

// others are shown below the claims. The commands fail when what they say is not so.
var others = []other{
	{"greedy answers of mode `verify` are the target's own, token by token", "make exactness", "[Exactness](measurements.md#exactness)"},
	{"sampled answers of mode `verify` have the target's distribution", "make thinning", "[Exactness](measurements.md#exactness)"},
	{"mode `risk` keeps its guarantee, with faults and drift", "make risk", "[Replays of the guarantee](measurements.md#replays-of-the-guarantee)"},
	{"live runs and virtual time are the same experiment", "make agree", "no column differs"},
	{"faults of Redis, replicas, backends and clients break no promise", "make chaos", "each row is kept"},
	{"restarts, upgrades, drains and spot notices lose no request", "make operations", "[Operations](measurements.md#operations)"},
	{"a worse candidate is told from an equal one, and a mirror delays nobody", "go test ./loadtest/virtual -run 'ACanary|AMirror' -v", "[Comparing targets](measurements.md#comparing-targets)"},
}

func writeOthers(b *strings.Builder) {
	b.WriteString("\n## Other proofs\n\n")
	row(b, "claim", "command", "figures")
	line(b, 3)
	for _, o := range others {
		row(b, o.claim, "`"+o.command+"`", o.where)
	}
}
