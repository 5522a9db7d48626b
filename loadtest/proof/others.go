package proof

import (
	"strings"

	"github.com/foregate/foregate/loadtest/pair"
)

// other is a proof that takes a command of its own.
type other struct{ claim, command, where string }

// others are shown below the claims. The commands fail when what they say is not so.
var others = []other{
	{"greedy answers of mode `verify` are the target's own, token by token", "make exactness", "[Exactness](measurements.md#exactness)"},
	{"mode `risk` keeps its guarantee, with faults and drift", "make risk", "[Replays of the guarantee](measurements.md#replays-of-the-guarantee)"},
	{"live runs and virtual time are the same experiment", "make agree", "no column differs"},
	{"faults of Redis, replicas, backends and clients break no promise; upgrades and spot notices lose no request", "make chaos", "each row is kept; [Operations](measurements.md#operations)"},
}

// pairSection is what was measured with real models.
func pairSection(all pair.Reports) section {
	out := section{
		Title: "Real pairs",
		About: "`make pair` runs real models on real engines, on the CPU: SmolLM2 with 135 million parameters behind copies of it that are made worse (near, worse, bad), and before Gemma 3 with 270 million, a base model that was not tuned for chats. They are small, so figures say how the gateway judges real drafts, not what larger models agree on. " +
			"`make proof-live TARGET=URL DRAFT=URL` measures the same, and dollars, with any two servers with OpenAI's API; for engines with API keys: `FLAGS='--target-key-file FILE --draft-key-file FILE'`. It writes a page and JSON that name the models, never where they run.",
	}
	if len(all) == 0 {
		return out
	}
	out.Grids = append(out.Grids, grid{Text: all.About()})
	for _, t := range all.Tables() {
		out.Grids = append(out.Grids, grid{Text: "**" + t.Title + ".** " + t.About, Head: t.Rows[0], Rows: t.Rows[1:]})
	}
	return out
}

func writeOthers(b *strings.Builder) {
	b.WriteString("\n## Other proofs\n\n")
	row(b, "claim", "command", "figures")
	line(b, 3)
	for _, o := range others {
		row(b, o.claim, "`"+o.command+"`", o.where)
	}
}
