package app_test

// What worlds of simulated engines have in common.
const (
	routeUsual = "llama-3"
	simDraft   = "sim/draft"
	simTarget  = "sim/target"
	simSeed    = 1
	simScale   = 50
)
