// Package lookup asks Redis a question that a request waits for: no longer than its budget, without
// cutting the command off, and not at all while Redis does not answer.
//
// Start at [New] and [Ask].
package lookup
