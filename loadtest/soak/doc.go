// Package soak runs a fleet for a long time under a steady load with a fault a minute, accounts for every request,
// and tells whether anything grows. Start at [Run]; [Report] is what it found, and its JSON is for other programs.
//
// The fleet is a [chaos.Testbed] of processes: three gateways, two drafts, three targets and a Redis server, on the
// loopback. The last gateway is the one that is restarted; the others run from the beginning to the end, so that
// what grows slowly is seen. First the capacity is measured with clients that send their next request after each
// answer (calibrate.go). Then an open loop sends [Options.Load] of it (mix.go says what), whatever is under way.
//
// Time is divided into cycles of [Options.Every], a minute. The first one has no fault. In each other one a fault
// of a fixed list (faults.go), in a seeded order, lasts a quarter of the cycle and is then undone; at its end,
// when everything is as before, the gateways' resources are read (sample.go). A request belongs to the fault that
// it overlaps, from the fault's beginning until the fleet is as before, or to none.
//
// The checks of a report (checks.go) hold or are broken:
//
//   - Accounting: each request that was sent is answered, shed (503 with X-Shed-Reason), limited (429), left by its
//     client, or failed with an error that has a code. Nothing else is allowed: no answer that is cut silently,
//     garbled, mute or sent twice, no time-out of a client, no connection that is refused at two gateways. An answer
//     at temperature 0 is what the engine says that gave it.
//   - Failures are few, and none is outside the faults.
//   - Flat: no resource of a process grows (flat.go), and with the load gone it has no more goroutines, files and
//     connections than before.
package soak
