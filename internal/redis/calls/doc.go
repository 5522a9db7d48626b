// Package calls makes the product's calls to Redis: one server, one behind Sentinels, or a cluster.
//
// A request waits for a call no longer than its budget, and makes none while Redis does not answer: start at [New] and [Do]. A
// deadline on the command itself would close its connection, and nobody would know whether Redis has counted. So the call runs
// to its end in a goroutine of its own, and only the wait for it is cut short. The owner of a [Client] tries a Redis that is away
// in the background ([Client.Run]): requests never find out for others.
//
// Scripts ([NewScript], [NewRunner]) are run by EVALSHA and loaded by SCRIPT LOAD, never by EVAL, which an operator's ACL may
// deny. A Redis that does not know a script says NOSCRIPT: it was restarted, another server took over, or the slot moved. A
// [Runner] then loads its scripts and sends again what was not run. go-redis panics at some malformed replies: what runs in the
// caller's goroutine panics there, and the caller recovers; [Runner.Load] recovers in those that go-redis starts.
package calls
