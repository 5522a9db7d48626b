// Package application tells the applications of a tenant apart by what their requests have in common: system prompt, tools
// and the format of the answer. How often the target stands by a draft depends on the application more than on anything
// that is seen in the draft.
package application

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/foregate/foregate/tiers/openai"
)

const (
	// headWords is how many words of a prompt tell its application: what comes later is often data.
	headWords = 128
	// sketchSlots is how many digits of a fingerprint are its sketch, and digestBytes the length of the rest before it is written
	// in hex. Two of a tenant's 256 applications are equal with a probability of 1e-5 if their sketches are.
	sketchSlots, digestBytes = 8, 4
)

// Of returns the name of a request's application: the tenant, a slash, and the name that the client gave, or without one
// a fingerprint of 16 hex digits. The first eight are a sketch of the prompt ([sketchOf]), the others a digest. secret is of the
// tenant, the same on all replicas; with another one all fingerprints are others. Without one ("") whoever guesses a prompt
// can compute its fingerprint.
func Of(r *openai.Request, tenant, named, secret string) string {
	if named != "" {
		return tenant + "/" + named
	}
	system := r.System()
	if len(system) == 0 {
		_, system = r.Head() // the first user turn, in case that it recurs
	}
	d := sha256.New()
	for _, part := range [][]byte{[]byte(tenant), []byte(secret), namesOf(r.Raw("tools")), hashOf(r.Raw("response_format"))} {
		_, _ = d.Write(append(part, 0)) // a hash takes all
	}
	sketch := sketchOf(system, binary.LittleEndian.Uint64(d.Sum(nil)))
	_, _ = d.Write(hashOf(system))
	return tenant + "/" + sketch + hex.EncodeToString(d.Sum(nil)[:digestBytes])
}

// sketchOf is a sketch of the first words of a JSON text: of two texts with the same seed, that have a share of their pairs of
// words in common, as large a share of the digits is equal (MinHash: Broder 1997; four bits of each: Li and König 2010), and
// besides one in 16 of the others. With another seed, so of other tools, another format or another tenant, it is another one.
func sketchOf(raw []byte, seed uint64) string {
	least, d := [sketchSlots]uint64{}, xxhash.NewWithSeed(seed)
	last := d.Sum64()
	for slot := range least {
		least[slot] = last * multipliers[slot]
	}
	for word := range wordsOf(raw) {
		d.ResetWithSeed(seed)
		_, _ = d.Write(word)
		word := d.Sum64()
		pair := bits.RotateLeft64(last, 1) ^ word
		for slot, by := range multipliers {
			least[slot] = min(least[slot], pair*by)
		}
		last = word
	}
	digits := [sketchSlots]byte{}
	for slot, v := range least {
		digits[slot] = "0123456789abcdef"[v&15]
	}
	return string(digits[:])
}

// multipliers are odd numbers. Each puts hashes in another order.
var multipliers = [sketchSlots]uint64{
	0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
	0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53, 0x87c37b91114253d5, 0x4cf5ad432745937f,
}

// hashOf is the hash of the first words of a JSON text.
func hashOf(raw []byte) []byte {
	d := xxhash.New()
	for word := range wordsOf(raw) {
		_, _ = d.Write(word)
		_, _ = d.Write([]byte{' '})
	}
	return d.Sum(nil)
}

// wordsOf are the first words of a JSON text. A word is a run of letters; one with a digit, such as a number, a date or an id,
// does not count, and neither does what is between words.
func wordsOf(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for n := 0; n < headWords && len(raw) > 0; {
			word, masked, rest := nextWord(raw)
			if raw = rest; len(word) == 0 || masked {
				continue
			}
			if n++; !yield(word) {
				return
			}
		}
	}
}

// nextWord cuts the next word from a JSON text: letters, digits, and all bytes beyond ASCII. masked says that it has a digit.
func nextWord(raw []byte) (word []byte, masked bool, rest []byte) {
	at := 0
	for at < len(raw) && !isWord(raw[at]) {
		if raw[at] == '\\' { // of an escape: \n, and not the word that begins behind it
			at++
		}
		at++
	}
	raw = raw[min(at, len(raw)):]
	end := 0
	for end < len(raw) && isWord(raw[end]) {
		masked = masked || raw[end]-'0' <= 9
		end++
	}
	return raw[:end], masked, raw[end:]
}

func isWord(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// namesOf is the hash of the names of tools, in their order. Descriptions and schemas of arguments do not count.
func namesOf(tools []byte) []byte {
	d := xxhash.New()
	key := []byte(`"name"`)
	for at := bytes.Index(tools, key); at >= 0; at = bytes.Index(tools, key) {
		tools = bytes.TrimLeft(tools[at+len(key):], " \t\r\n:")
		if len(tools) == 0 || tools[0] != '"' { // a parameter with this name
			continue
		}
		end := bytes.IndexByte(tools[1:], '"')
		_, _ = d.Write(tools[:max(end+2, 1)])
		tools = tools[max(end+2, 1):]
	}
	return d.Sum(nil)
}
