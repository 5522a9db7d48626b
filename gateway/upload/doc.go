// Package upload decides which request bodies are read, and how much memory all bodies together may
// take. Start at [Gate.Begin].
//
// A [Body] goes through three states: it is coming, its request is under way, it is over. A body that is
// coming holds a place of the uploads, one whose request is under way a place of the requests, and both
// hold the bytes that are set aside for them. So uploads that stall take no place from generations, and
// generations none from uploads.
//
// It guarantees that a [Gate] never gives out more than it has, and that no tenant that holds something takes
// more, unless what it holds then is at most twice what is left. So a tenant that is alone gets two
// thirds, and one that holds nothing can begin as long as anything is free, whatever others hold. All decisions are pure
// (quota.go); one mutex guards the counts, nobody waits, and a tenant that holds nothing is forgotten.
package upload
