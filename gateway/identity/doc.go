// Package identity says who is calling: it turns a request's credentials and headers into a [Caller] with a
// tenant and a priority. Start at [New] and [Resolver.Identify].
//
// It guarantees that a tenant and a priority come from a source that may name them (a key, a signature, a
// token, a proxy on the list, or a caller on this very machine), that a header never raises a priority above
// the ceiling that this source sets, and that every value it hands out is safe in a label, a log line and a
// Redis key. No error of this package repeats a value that a client sent, or a byte of a secret.
//
// In all modes but keys, a request may name a tenant that is not listed. It is refused, or it gets the rights
// in Options.Default. For a listed tenant the lower of the two ceilings holds.
//
// Tenants, secrets and key sets rotate: [Resolver.SetTenants], [Resolver.SetSigningKeys] and
// [Resolver.SetKeySet] replace the state for later requests, or change nothing. One request sees one state of
// all three.
//
// # Mode signed
//
// A load balancer or mesh that has authenticated the caller signs the identity, for one request, with a
// secret that it shares with the gateway:
//
//	X-Identity: v1;t=TENANT;p=PRIORITY;exp=UNIX;kid=KEYID;sig=SIGNATURE
//
// The fields stand in this order, once each, with nothing between them but the semicolons. TENANT and KEYID
// are 1 to 64 of A-Z a-z 0-9 . _ : -, PRIORITY is low, normal or high, and UNIX is the second at which the
// signature ends, in decimal digits. SIGNATURE is the HMAC-SHA256 under the secret KEYID, in base64url
// without padding (43 characters), of these bytes:
//
//	the header's value before ";sig=", LF, the method, LF, the path
//
// LF is one byte 0x0a. The method is as on the request line, in upper case, and the path is what the request
// line has before the first "?", as it arrives at the gateway, with its escapes. No field can hold a
// semicolon, an equals sign or an LF, and neither can a method, so that no two requests give the same bytes.
//
// A signature is valid until UNIX, which may be at most 300 s ahead. Clocks may differ by 30 s. Within that
// time anyone who reads the header can replay it, to the same method and path, so the connection between
// signer and gateway must be private. PRIORITY is the request's class, and X-Priority may lower it.
// X-Tenant-ID may only repeat TENANT. Two or more secrets may be valid at once. To rotate one, add the new
// secret to every gateway, switch the signers to it, then remove the old one.
//
// A secret is 32 to 4,096 printable ASCII characters without spaces, as `openssl rand -hex 32` prints it. The
// HMAC key is these characters themselves, not decoded bytes.
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
