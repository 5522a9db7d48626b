// Package chaos is the fault suite. Each [Row] is a fault, what is promised under it, and a function that
// makes the fault while a load runs. [Run] runs rows one after the other and prints a table of what was
// promised and what was seen. Start at [Run] and [Row].
//
// A row gets a [Testbed] of its own: three gateways as processes, a real Redis in the [Topology] that its
// [Setup] asks for, simulated vLLM servers in this process, and a load of a few tens of requests a second.
// [Redis.Proxies] are [Proxy] values between the gateways and Redis. They refuse, swallow, delay, throttle,
// cut and corrupt answers, and count round trips. The testbed sees gateways over HTTP and as processes only.
//
// [Operations] are rows of another table: what operators and clouds do to a fleet that serves. The answers of
// their load are known to the letter, and every request is accounted for (whole, lost, cut, shed).
// [Testbed.BalanceBy] is the load balancer before the gateways.
//
// To add a row, put it into a function such as redisRows and name that in [Rows]. Run is called when the
// gateways share with each other and the load has run for a while without a fault. It makes the fault, most
// simply by
//
//	w.Inject(ctx, w.Span(short, whole), begin, end)
//
// Inject marks what is sent meanwhile as sent during the fault. After end it waits until the gateways share
// again ([Testbed.InjectUntil]: until something else) and keeps the time that this took, which [Row.Recover]
// bounds. What is particular to the row is checked with [Testbed.Until] and [Testbed.Fail], and told with
// [Testbed.Note]. A row without Redis, with other simulators, configuration, limits or load says so in its
// Setup. Gateways can be killed, frozen, ended and started again; OutOfTurn keeps the load away from one, as
// a load balancer would. [Testbed.StartLoad] starts more loads, [Load.Send] sends a single request, and
// [Load.Burst] sends many alike. No load asks what another has asked, nor the same twice, unless its requests
// have a Prompt: nothing else is answered from the cache.
//
// These hold in every row without its doing anything, or the row fails. Every request is answered once and
// whole (no silent cut, no [DONE] after an error, no second one), except for kinds in [Row.Tolerated]. No
// request waits longer for its first byte than the median before the fault plus [Row.Added]. Gateways live,
// and without load return to the goroutines and the heap that they had before it. Each logs at most ten lines
// and ten a fault beside its access records.
//
// Times are promises plus 250 ms plus five times what a timer of this process was late ([TimerLag]).
// Latencies may also vary as they did before the fault. Rows of a slow Redis are held to its budget without
// the 250 ms, by the gateways' receipts (heldToBudget).
//
// Run guarantees that whatever was started has ended when it returns: processes are stopped by their id and
// waited for, listeners closed, goroutines joined. On Linux children end even if this process is killed.
package chaos
