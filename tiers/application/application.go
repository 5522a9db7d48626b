// Package application tells the applications of a tenant apart by what their requests have in common: system prompt, tools
// and the format of the answer. How often the target stands by a draft depends on the application more than on anything
// that is seen in the draft.
package application

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"

	"github.com/foregate/foregate/tiers/openai"
)

const (
	// headWords is how many words of a prompt tell its application: what comes later is often data.
	headWords = 128
	// idBytes is the length of a fingerprint before it is written in hex. Two of a tenant's 256 applications are equal with
	// a probability of 1e-10.
	idBytes = 6
)

// Of returns the name of a request's application: the tenant, a slash, and the name that the client gave, or without one
// the fingerprint in 12 hex digits. secret is of the tenant, the same on all replicas; with another one all fingerprints are
// others. Without one ("") whoever guesses a prompt can compute its fingerprint.
func Of(r *openai.Request, tenant, named, secret string) string {
	if named != "" {
		return tenant + "/" + named
	}
	system := r.System()
	if len(system) == 0 {
		_, system = r.Head() // the first user turn, in case that it recurs
	}
	d := sha256.New()
	for _, sum := range [][]byte{[]byte(secret), hashOf(system, headWords), namesOf(r.Raw("tools")), hashOf(r.Raw("response_format"), headWords)} {
		_, _ = d.Write(append(sum, 0)) // a hash takes all
	}
	return tenant + "/" + hex.EncodeToString(d.Sum(nil)[:idBytes])
}

// hashOf is the hash of the first words of a JSON text. A word is a run of letters; a word with a digit, such as a number, a
// date or an id, does not count, and neither does what is between words.
func hashOf(raw []byte, most int) []byte {
	d := xxhash.New()
	for n := 0; n < most && len(raw) > 0; {
		word, masked, rest := nextWord(raw)
		if raw = rest; len(word) == 0 || masked {
			continue
		}
		_, _ = d.Write(word)
		_, _ = d.Write([]byte{' '})
		n++
	}
	return d.Sum(nil)
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
