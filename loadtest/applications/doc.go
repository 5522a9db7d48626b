// Package applications shows what mode risk serves where applications differ: its tests run the gateway's own decisions,
// evidence and refits over drafts whose applications, scores and labels follow a law that is known. Nothing else of a gateway
// takes part, so that weeks of traffic take seconds. run_test.go makes a run.
package applications
