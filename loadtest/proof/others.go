package proof

import "strings"

// other is a proof that takes a command of its own.
type other struct{ claim, command, where string }

// others are shown below the claims. The commands fail when what they say is not so.
var others = []other{
	{"greedy answers of mode `verify` are the target's own, token by token", "make exactness", "[Exactness](measurements.md#exactness)"},
	{"mode `risk` keeps its guarantee, with faults and drift", "make risk", "[Replays of the guarantee](measurements.md#replays-of-the-guarantee)"},
	{"live runs and virtual time are the same experiment", "make agree", "no column differs"},
	{"faults of Redis, replicas, backends and clients break no promise", "make chaos", "each row is kept"},
	{"restarts, upgrades, drains and spot notices lose no request", "make operations", "[Operations](measurements.md#operations)"},
}

// realPair says how the page is measured where there are real engines.
const realPair = "\n## A real pair\n\n" +
	"`make proof-live TARGET=URL DRAFT=URL` runs against any two servers with OpenAI's API, with GPUs or without, and says what it could measure there: acceptance, of chat and of code, AUROC, exactness, continued answers, cost and latency of each mode, " +
	"and the reason for what it could not. For engines with API keys: `FLAGS='--target-key-file FILE --draft-key-file FILE'`. It writes a page and JSON that name the models, never where they run. [Two pairs that were measured](measurements.md#a-real-pair): simulated engines, and llama.cpp with tiny models.\n"

func writeOthers(b *strings.Builder) {
	b.WriteString(realPair)
	b.WriteString("\n## Other proofs\n\n")
	row(b, "claim", "command", "figures")
	line(b, 3)
	for _, o := range others {
		row(b, o.claim, "`"+o.command+"`", o.where)
	}
}
