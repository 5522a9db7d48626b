package chaos

import (
	"context"
	"slices"
	"strings"
	"time"
)

// settingsKey is the hash of live settings.
const settingsKey = "foregate:settings"

// Row is one line of the table: a fault and what is promised under it.
type Row struct {
	ID, Fault, Promise string

	Short bool // part of the short form
	Setup Setup

	// Added is the latency that the fault may add to any request; 0 is the 15 ms budget of
	// a lookup, below 0 is not checked.
	Added time.Duration
	// Recover is how long after the fault's end all is as before; 0 is not checked.
	Recover time.Duration
	// Tolerated are kinds of outcomes, beside [Answered], that break no promise.
	Tolerated []string
	// MaxLogLines is how many lines each gateway may log per strike beside access records; 0 is
	// 10. Ten more are free.
	MaxLogLines int

	// Run makes the fault, once the load runs and its latency before is known, and checks
	// what is particular to the row with [Testbed.Fail] and [Testbed.Until]. An error means
	// that the row could not be carried out. Run leaves the world healed.
	Run func(ctx context.Context, w *Testbed) error
}

// is reports whether an id names the row: R4 names R4a, R4b and so on.
func (r *Row) is(id string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(r.ID), strings.ToLower(id))
	return ok && (rest == "" || len(rest) == 1 && rest[0] >= 'a' && rest[0] <= 'z')
}

// Result is what came of a row.
type Result struct {
	Sent, Answered int
	Errors         map[string]int // by kind
	Samples        []string       // a detail of each kind
	// Added latency: the time to the first byte during the fault beyond the median before.
	AddedP99, AddedWorst time.Duration
	FrontP99             time.Duration // the same for the part outside the cascade, of streams
	Recovered            time.Duration
	Notes, Failures      []string
	Figure               time.Duration // what a row measures beside its promise; 0 is nothing

	did *accounting // of an operation
}

// Rows are all rows, in the order of the table. A file adds its rows here.
func Rows() []Row {
	return slices.Concat(redisRows(), failoverRows(), lostRows(), starvedRows(), verifyRows(),
		[]Row{breakerRow(), killedRow(), hotRow(), switchRow(), overloadRow(), riskRow()})
}
