// Package prefix knows what prompts begin with, and on which backends that is
// warm: in the prefix cache of an engine, where it need not be computed again.
//
// Start at [Parts], which names what a prompt begins with, and [Table], which
// remembers where that was sent. Nothing here asks an engine: a table is an estimate
// by vLLM's own rule, least recently used goes first.
package prefix

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Key names a leading part of a prompt. Equal keys are equal parts of the same
// tenant; keys of different parts differ but for chance (64 bits).
type Key uint64

// Part is a leading part of a prompt. A prompt has some, each within the next: its
// system prompt, and that with the conversation behind it.
type Part struct {
	Key   Key
	Share float64 // of the prompt's length, 0..1
}

// Placement says that a part was sent to a backend, and is warm there from then
// on, until the engine needs the room.
type Placement struct {
	Key     Key
	Backend string // its id in the pool
	Tokens  int    // from the prompt's start to the part's end
	Own     int    // of these, behind the next shorter part of the prompt
	Cold    bool   // it was not warm there before, so that Own tokens pushed others out
}

// MaxParts is how many parts of a prompt are named at most.
const MaxParts = 2

// Head is what decides where a prompt is warm: pieces of it that later prompts
// will begin with too. Nil is absent.
type Head struct {
	Tenant string
	RAG    string // digest of the retrieved context, where the client told it
	System []byte // tools and system messages
	First  []byte // the first message of the conversation, or the head of a plain prompt
}

// Parts is what the prompt begins with: its system prompt with the retrieved context,
// where there is one, and the conversation. bytes is the length of the whole prompt;
// a part's share of the tokens is taken to be that of the bytes. Parts that are absent
// are zero, behind the others.
func (h Head) Parts(bytes int) (parts [MaxParts]Part) {
	n := 0
	var sum xxhash.Digest
	sum.Reset()
	piece(&sum, h.Tenant)
	piece(&sum, h.RAG)
	piece(&sum, h.System)
	if len(h.System) > 0 {
		parts[n] = Part{Key(sum.Sum64()), min(float64(len(h.System))/float64(max(bytes, 1)), 1)}
		n++
	}
	if len(h.First) > 0 {
		piece(&sum, h.First)
		parts[n] = Part{Key(sum.Sum64()), 1}
	}
	return parts
}

// piece hashes b with its length before it, so that no two heads read alike.
func piece[S string | []byte](sum *xxhash.Digest, b S) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
	_, _ = sum.Write(length[:]) // a hash takes everything
	_, _ = sum.Write([]byte(b))
}
