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
// Keys, trusted headers and an open gateway find tenants in the configuration;
// signatures and tokens may also name tenants that it does not list. For one
// that it does list, the lower of the two ceilings holds.
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
// A secret is a file with one line of 32 to 4,096 printable ASCII characters
// without spaces, as `openssl rand -hex 32` writes it; the key of the HMAC is
// these characters, not what they encode. Secrets are read when the gateway starts.
//
// # Mode jwt
//
// The caller sends a JSON Web Token (RFC 7519), signed (RFC 7515, compact), of at
// most 8 KiB as its bearer token. Its algorithm must be on the list, its kid must
// be that of a key in the key set (RFC 7517), iss and aud must be those of the
// configuration, exp must be there, and exp, nbf and iat must fit the clock with
// 30 s to spare. Keys come from that file only: jku, x5u, x5c and jwk in a token
// are not looked at. The file is looked at every 30 s and read again when it has
// changed; while a changed file is broken the keys before it stay in force.
//
// One claim names the tenant and one the highest priority; without the latter it
// is normal. A request is normal, or that if it is lower, unless X-Priority says
// otherwise.
package identity
