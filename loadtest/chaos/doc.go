// Package chaos is the fault suite, and the harness of processes, faults and checks that packages soak and live share. Each
// [Row] has a fault, the promise under this fault, and a function that causes the fault while a load runs. [Run] runs rows one
// after the other and prints a table of promises and observations. Start at [Run] and [Row].
//
// A row gets a [Testbed] of its own: three gateways as processes, a real Redis in the [Topology] that its
// [Setup] asks for, simulated vLLM servers in this process, and a load of a few tens of requests a second.
// [Redis.Proxies] stand between the gateways and Redis. They swallow, delay, throttle
// and cut answers, and count connections. The testbed sees gateways over HTTP and as processes only.
//
// Some rows are actions of operators and clouds on a fleet under load. The text of every answer is known there, and must
// be what the engines say. [Testbed.BalanceBy] is the load balancer before the gateways.
//
// To add a row, put it into a function such as redisRows and list that function in [Rows]. Run is called when
// the gateways share state and the load has run for a while without a fault. It causes the fault, in the
// simplest case by
//
//	w.Inject(ctx, w.Span(short, whole), begin, end)
//
// Inject marks requests that are sent meanwhile as sent during the fault. After end it waits until the
// gateways share state again ([Testbed.InjectUntil]: until another condition) and records the time that this
// took, which [Row.Recover] bounds. A row checks its own conditions with [Testbed.Until], [Testbed.Within] and
// [Testbed.Fail], and reports with [Testbed.Note]. A row without Redis, with other simulators, configuration, limits or load
// sets this in its Setup.
//
// These checks run in every row. If one fails, the row fails. Every request is answered once and whole (no
// silent cut, no [DONE] after an error, no second one), except for kinds in [Row.Tolerated]. No request waits
// longer for its first byte than the median before the fault plus [Row.Added]. Gateways stay alive, and
// without load return to the number of goroutines and the heap size that they had before. Each logs at most
// ten lines plus ten per fault, besides its access records.
//
// The bound of a time is the promise plus 250 ms plus five times the delay of this process' timers
// ([TimerLag]). Latencies may also vary as much as before the fault.
//
// Run guarantees that everything it started has ended when it returns: processes are stopped by their id and
// waited for, listeners are closed, goroutines have ended. On Linux children end even if this process is
// killed.
package chaos
