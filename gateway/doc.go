// Package gateway is the HTTP surface: two listeners, the routes, the error table, the access record, and the
// order of start and stop. Start at [New] and routes.go. It guarantees that every request is answered once,
// in OpenAI's format; that nothing a client sends reaches a header, label or log line unchecked; and that on
// stop, streams get a bounded time to finish.
package gateway
