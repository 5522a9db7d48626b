// Package fields says what becomes of the members of a client's request: which are sent on, which
// are removed, which are refused, which of these a route may allow, and which keys each type of
// content part has. Start at [Lookup], [Allowable] and [Parts].
//
// It is tables and look-ups alone. Whoever reads requests (tiers/openai) and whoever reads the
// configuration (gateway/config) use the same tables, so that no route can list what is never allowed.
package fields
