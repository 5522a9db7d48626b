package openai

import (
	"sync"

	"github.com/zeebo/blake3"
)

// digestContext separates digests from other hashes, and from digests of another canonical form.
const digestContext = "foregate 2026-11 request in canonical form, 1"

// Digest is a hash of the request's canonical form ([Request.Canonical]), which is hashed piece by piece from
// the body. Equal digests mean requests that no engine can distinguish. It fails only if the body was changed
// after the scan.
//
// The hash is BLAKE3 with 256 bits in its key derivation mode. A tenant chooses the body, and must not find
// two requests with one digest, or one with the digest of another's: as with SHA-256, that takes 2^128 and
// 2^256 steps. No attack on BLAKE3 is better: it is BLAKE2's compression function, which was examined in the
// SHA-3 competition, with fewer rounds, in a tree whose leaves, parents and root are told apart. It needs about
// a third of SHA-256's time on long bodies, and as much on short ones (BenchmarkBodyDigest).
func (r *Request) Digest() (sum [32]byte, err error) {
	d, _ := digesters.Get().(*digester)
	defer d.release()
	if !d.request(r) {
		return sum, errCanonical
	}
	d.write('{')
	for i, p := range d.pieces {
		switch p.form {
		case asIs:
			_, _ = d.hash.Write(p.span.Of(d.src)) // a hash never fails
		case comma:
			d.write(',')
		default:
			if d.room = d.append(d.room[:0], i); d.room == nil {
				return sum, errCanonical
			}
			_, _ = d.hash.Write(d.room)
		}
	}
	d.write('}')
	d.hash.Sum(sum[:0])
	return sum, nil
}

// digester makes digests.
type digester struct {
	canon
	hash *blake3.Hasher
	room []byte
}

// digesters are reused: a hash has 10 KiB (BenchmarkBodyDigest).
var digesters = sync.Pool{New: func() any {
	return &digester{hash: blake3.NewDeriveKey(digestContext)}
}}

func (d *digester) write(b byte) {
	d.room = append(d.room[:0], b)
	_, _ = d.hash.Write(d.room)
}

// release returns the digester for reuse and drops the request.
func (d *digester) release() {
	const most = 1024 // pieces; more are not kept
	if cap(d.pieces) > most || cap(d.spare) > most || cap(d.parts) > most || cap(d.room) > keptText {
		return
	}
	clear(d.order[:cap(d.order)])
	clear(d.parts[:cap(d.parts)])
	d.src, d.long, d.parts = nil, nil, d.parts[:0]
	d.hash.Reset()
	digesters.Put(d)
}
