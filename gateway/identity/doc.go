// Package identity says who is calling: it turns a request's credentials and
// headers into a [Caller] with a tenant and a priority. Start at [New] and
// [Resolver.Identify].
//
// It guarantees that a tenant and a priority come from a source that may name
// them (a key, a signature, a token, a proxy on the list, or a caller on this
// very machine), that a header never raises a priority above the ceiling that
// this source sets, and that every value it hands out is safe in a label, a log
// line and a Redis key. No error of this package repeats a value that a client
// sent, or a byte of a secret.
//
// In all modes but keys, a tenant may be named that is not listed: it is refused,
// or each such tenant may what Options.Default says. For one that is listed, the
// lower of the two ceilings holds.
//
// Tenants, secrets and key sets rotate: [Resolver.SetTenants],
// [Resolver.SetSigningKeys] and [Resolver.SetKeySet] replace what was in force
// for the requests that come from then on, or change nothing. A request is judged
// by one state of all three.
//
// # Mode signed
//
// A load balancer or mesh that has told the caller apart signs what it found,
// for one request, with a secret that it shares with the gateway:
//
//	X-Identity: v1;t=TENANT;p=PRIORITY;exp=UNIX;kid=KEYID;sig=SIGNATURE
//
// The fields stand in this order, once each, with nothing between them but the
// semicolons. TENANT and KEYID are 1 to 64 of A-Z a-z 0-9 . _ : -, PRIORITY is
// low, normal or high, and UNIX is the second at which the signature ends, in
// decimal digits. SIGNATURE is the HMAC-SHA256 under the secret KEYID, in
// base64url without padding (43 characters), of these bytes:
//
//	the header's value before ";sig=", LF, the method, LF, the path
//
// LF is one byte 0x0a. The method is as on the request line, in upper case, and
// the path is what the request line has before the first "?", as it arrives at
// the gateway, with its escapes. No field can hold a semicolon, an equals sign or
// an LF, and neither can a method, so that no two requests give the same bytes.
//
// A signature holds until UNIX, which may be 300 s ahead at most; 30 s more are
// allowed on both sides for clocks that differ. Within that time whoever reads
// the header may send it again, to the same method and path, so the way between
// signer and gateway must be private. PRIORITY is the request's class, and
// X-Priority may lower it. X-Tenant-ID may only repeat TENANT. Two secrets or
// more may be valid at once: to change one, give every gateway the next one
// beside it, let the signers go over to it, then remove the old one.
//
// A secret is 32 to 4,096 printable ASCII characters without spaces, as
// `openssl rand -hex 32` writes it; the key of the HMAC is these characters, not
// what they encode.
//
// # Mode jwt
//
// The caller sends a JSON Web Token (RFC 7519), signed (RFC 7515, compact), of at
// most 8 KiB as its bearer token. Its algorithm must be on the list, its kid must
// be that of a key in the key set (RFC 7517), iss and aud must be those of the
// configuration, exp must be there, and exp, nbf and iat must fit the clock with
// 30 s to spare. Keys come from that set only: jku, x5u, x5c and jwk in a token
// are not looked at.
//
// One claim must name the tenant, and one may name the highest priority; without
// the latter it is normal. No other claim stands in for the tenant's. A request is
// normal, or that if it is lower, unless X-Priority says otherwise.
package identity
