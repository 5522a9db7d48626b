// Package tiers is the cascade: it plans whether a request is drafted, streams
// the draft past the acceptance logic, and escalates to the target when the
// draft does not hold, carrying over what was accepted.
//
// Start at [Cascade.Answer] and read downwards: decide.go plans the request by the pure functions of tiers/plan,
// tiers/strategy answers it in one of its ways, and learn.go takes its lessons. Strategies keep what they know of a draft in
// tiers/draft and of the answer in tiers/transcript, ask the target through tiers/verify, and send their calls through
// tiers/dispatch, which has them made by an engine.Upstream: tiers/upstream. What passes through unread begins at
// [Cascade.Forward].
//
// It promises that bytes once handed to the client are never retracted, and that
// a rejected draft's connection is closed at once. A call that fails before its
// first byte is tried elsewhere, within the retry budget. An answer that is lost
// after it is carried on with by another backend behind what the client has,
// three times at most, unless speculation.midstream_failover is off or the request does not
// allow it; else it ends in an error, never as if it were whole. A panic costs
// one request, and gives back what that held.
package tiers
