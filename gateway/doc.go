// Package gateway is the HTTP surface: two listeners, the routes, the error
// table, the access record, and the order in which everything starts and stops.
// Start at [New] and routes.go.
//
// It promises that every request is answered once, in OpenAI's shape; that
// nothing a client sends reaches a header, label or log line unchecked; and that
// stopping lets streams finish within a bound.
package gateway
