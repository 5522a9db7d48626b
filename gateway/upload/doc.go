// Package upload decides which request bodies are read, and bounds the memory of all bodies together. Start
// at [Gate.Begin]. A [Body] has three states: uploading, in progress (its request runs), done. An uploading
// body holds an upload slot, one in progress holds a request slot, and both hold the bytes that are reserved
// for them. So stalled uploads take no slot from generations, and generations take none from uploads. It
// guarantees that a [Gate] never hands out more than it has. A tenant that already holds something gets more
// only while its new holding is at most twice what is left. So a tenant that is alone gets two thirds, and a
// tenant that holds nothing can begin as long as anything is free, whatever others hold. All decisions are
// pure (quota.go), one mutex guards the counts, no call waits, and a tenant that holds nothing is forgotten.
package upload
