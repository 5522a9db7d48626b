// Package fields lists the members of client requests: which are forwarded, removed or refused, which of
// these a route may allow, and which keys each type of content part has. Start at [Lookup], [Allowable] and
// [Parts]. It contains only tables and look-ups. tiers/openai (requests) and gateway/config (configuration)
// use the same tables, so that no route can list a field that is never allowed.
package fields
