// Package live runs one case of a scenario against the real thing: the gateway's
// own binary as processes, a real Redis, simulated vLLM servers over real
// sockets. Start at [Run].
//
// It sees the gateway over HTTP only. The client sends at the times that the
// workload gives, whatever is outstanding, and counts every request from when it
// should have been sent: a slow system cannot hide behind a slow sender. What
// cannot be sent, because the client itself is full, is counted as failed.
//
// A time scale of 20 runs the simulators, the load and the client's
// patience twenty times faster, and multiplies what was measured by twenty. So
// that it stays the same experiment, the gateway's settings that are durations
// (speculation.holdback_ms, scrape.interval, breaker.* and timeout.*, the case's
// own values or the defaults) are divided by it too, within the range that the
// gateway allows. What cannot be scaled is how long a reading of a backend's
// metrics counts (2 s), the second that settings take to arrive, the 5 tokens a second
// by which the gateway bounds the wait for a JSON answer, and the costs of the gateway
// and of this machine: at 20, a millisecond of them is reported as 20.
//
// Run guarantees that whatever it started has ended when it returns, however it
// returns: processes are stopped by their id and waited for, listeners closed,
// goroutines joined. On Linux children end even if this process is killed.
package live
