// Package loadtest says what is to be measured and what came of it: scenarios,
// the load that follows from one, and the table and JSON that a run ends in.
//
// Start at [Load], which reads a [Scenario]; [NewWorkload] makes its requests;
// a run (packages live and virtual) hands what came of each to a [Recorder];
// [Report] prints. Nothing here knows the gateway or the simulator.
//
// It guarantees that the same scenario and seed make the same requests in both
// kinds of run, that a request's time counts from when it should have been sent
// (so a slow system cannot hide behind a slow sender), and that a row holds
// finite numbers only.
//
// All times are those of the simulated hardware: a live run at time scale 20
// lasts a twentieth of them and is reported times twenty.
package loadtest
