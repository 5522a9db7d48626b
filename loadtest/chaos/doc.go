// Package chaos is the fault suite: each [Row] is a fault, what is promised under it,
// and a function that makes it while a load runs; [Run] runs rows one after the other and
// prints a table of what was promised and what was seen. Start at [Run] and [Row].
//
// A row gets a [World] of its own: three gateways as processes, a real Redis in the
// [Topology] that its [Shape] asks for, simulated vLLM servers in this process, and a
// load of a few tens of requests a second. [Redis.Doors] are [Proxy] values between the
// gateways and Redis, which can refuse, mute, delay, throttle, cut, corrupt, and count
// round trips. The world sees gateways over HTTP and as processes only.
//
// [Operations] are rows of another table: what operators and clouds do to a fleet that serves,
// with a load whose answers are known to the letter, and every request accounted for (whole,
// lost, cut, shed). [World.BalanceBy] is the load balancer before it.
//
// To add a row, put it into a function such as redisRows and name that in [Rows]. Run
// is called when the gateways share with each other and the load has run for a while
// without a fault. It makes the fault, most simply by
//
//	w.Strike(ctx, w.Span(short, whole), begin, end)
//
// which marks what is sent meanwhile as sent during the fault, waits after end until the
// gateways share again ([World.StrikeUntil]: until something else), and keeps the time
// that took, which [Row.Recover] bounds. What is particular to the row is checked with
// [World.Until] and [World.Break], and told with [World.Note]. A row that has no Redis,
// other simulators, configuration, limits or load says so in its Shape. Gateways can be
// killed, frozen, ended and started again; keep the load away from one as a load balancer
// would with OutOfTurn. More loads are started with [World.StartLoad], single requests
// sent with [Load.Send], many alike with [Load.Crowd]. No load asks what another has
// asked, nor the same twice, unless its requests have a Prompt: nothing else is answered
// from the cache.
//
// These hold in every row without its doing anything, or the row fails: every request
// is answered, once, and whole (no silent cut, no [DONE] after an error, no second one),
// but for kinds in [Row.Bears]; no request waits longer for its first byte than the
// median before the fault plus [Row.Added]; gateways live, and without load fall back to
// the goroutines and the heap that they had before it; each logs at most ten lines and
// ten a strike beside its access records.
//
// Times are promises plus 250 ms plus five times what a timer of this process was late
// ([Pulse]); latencies may also vary as they did before the fault. Rows of a slow Redis are held to
// its budget without the 250 ms, and by the gateways' receipts (heldToBudget).
//
// Run guarantees that whatever was started has ended when it returns: processes are
// stopped by their id and waited for, listeners closed, goroutines joined. On Linux
// children end even if this process is killed.
package chaos
