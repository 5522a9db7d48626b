// Package conversations keeps what tenants asked and were answered in the Responses API, so that a next request needs to name the
// response before it only. Start at [New].
//
// A conversation is all responses that go on from one first response. It is one hash in Redis, and so one read, however many turns it
// has; its keys have a time to live from its last turn on. Texts are sealed ([cache.Sealer]), also to the id of their response, which is
// nowhere in Redis: who reads Redis without the ids cannot read the texts.
//
// What is kept belongs to a tenant: the names of its keys are hashes of the tenant, of the purges of its answers, and of the id, so a
// tenant finds nothing of others, and a purge of its cached answers leaves nothing to be found here, either.
//
// A request never fails because its answer could not be kept: [Store.Put] waits no longer than [PutTime], and the client is told.
package conversations
