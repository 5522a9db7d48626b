// Package cache keeps answers, so that an identical request of the same tenant
// costs no GPU, and lets identical requests that are under way share one generation.
//
// Start at [KeyOf], which names a request, [Store], which looks answers up and keeps
// them in Redis behind a small copy in this process, and [Generations], which joins
// identical requests.
//
// It guarantees that an answer is served only for the very request it was made for:
// the key covers every part of it, values are sealed to their key, and whatever does
// not open is a miss. Redis being slow, full or away costs a request its budget at
// most, and then nothing. What an answer says is not known here; it is bytes.
package cache
