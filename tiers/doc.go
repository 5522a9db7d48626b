// Package tiers is the cascade: it plans whether a request is drafted, streams
// the draft past the acceptance logic, and escalates to the target when the
// draft does not hold, carrying over what was accepted. Start at
// [Cascade.Answer].
//
// It promises that bytes once handed to the client are never retracted, that a
// rejected draft's connection is closed at once, and that nothing is retried
// after the first byte.
package tiers
