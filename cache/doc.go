// Package cache stores answers, so that an identical request of the same tenant costs no GPU time. Start at [KeyOf], which
// computes a request's key, and [Store], which reads and writes answers in Redis, with copies in this process, and hears
// of purges. It guarantees that an answer is served only for the exact request that it was made for: the key covers every
// part of the request, values are sealed to their key, and a value that cannot be opened is a miss. A slow, full or
// unavailable Redis costs a request at most its budget, and after some failures nothing. Answers are opaque bytes to this package.
package cache
