// Package tiers is the cascade. It plans whether a request gets a draft, judges the draft while it streams, and
// escalates to the target if the draft is rejected; the target continues the accepted part.
//
// Start at [Cascade.Answer]: decide.go plans the request with the pure functions of tiers/plan, tiers/strategy answers
// it, and learn.go updates statistics and evidence. A strategy keeps the draft and the answer in tiers/draft,
// asks the target through tiers/inflight, and makes calls through tiers/dispatch, which uses an engine.Upstream
// (tiers/upstream). Requests that are passed through unread start at [Cascade.Forward].
//
// Guarantees: bytes that were sent to the client are never retracted, and the connection of a rejected draft is closed
// at once. A call that fails before its first byte is retried on another backend within the retry budget. If an answer
// fails later, another backend continues it, three times at most, unless speculation.midstream_failover is off or the
// request does not allow it; then the answer ends with an error and never looks complete. A panic fails one request
// only, and releases all that the request held.
package tiers
