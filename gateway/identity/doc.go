// Package identity says who is calling: it turns a request's credentials and headers into a [Caller] with a
// tenant and a priority. Start at [New] and [Resolver.Identify].
//
// It guarantees that a tenant and a priority come from a source that may name them (a key, a token,
// a proxy on the list, or a caller on this very machine), that a header never raises a priority above
// the ceiling that this source sets, and that every value it hands out is safe in a label, a log line and a
// Redis key. No error of this package repeats a value that a client sent, or a byte of a secret.
//
// In all modes but keys, a request may name a tenant that is not listed. It is refused, or it gets the rights
// in Options.Default. For a listed tenant the lower of the two ceilings holds.
//
// Tenants and key sets rotate: [Resolver.SetTenants] and [Resolver.SetKeySet] replace the state for later
// requests, or change nothing. One request sees one state of both.
//
// # Mode jwt
//
// The caller sends a JSON Web Token (RFC 7519), signed (RFC 7515, compact), of at most 8 KiB as its bearer
// token. Its algorithm must be on the list, its kid must be that of a key in the key set (RFC 7517), iss and
// aud must be those of the configuration, exp must be there, and exp, nbf and iat must fit the clock with 30
// s to spare. Keys come from that set only: jku, x5u, x5c and jwk in a token are ignored.
//
// One claim must name the tenant. No other claim replaces it. Another claim may name the highest allowed
// priority (default: normal). Without X-Priority a request has priority normal, or the highest allowed one if
// that is lower.
package identity
