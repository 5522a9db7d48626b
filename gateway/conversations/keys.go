package conversations

import (
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/binary"
	"encoding/hex"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/internal/redis/calls"
)

// keyPrefix begins all keys. A tenant's are in one slot of a cluster:
//
//	foregate:response:{TENANT}           sorted set: conversation → time of its last turn, in ms of Redis' clock
//	foregate:response:{TENANT}:bytes     hash: conversation → bytes; "" → bytes of all
//	foregate:response:{TENANT}:C         hash: response → sealed items of its turn
//	foregate:response:{TENANT}:C:whole   hash: response → the sealed response, for GET
//
// TENANT, C and the names of responses are hashes of 16 bytes in hexadecimal. All expire responses.ttl after the last turn. What the
// sorted set does not name is not there, whatever else Redis has.
const keyPrefix = "foregate:response:"

var (
	//go:embed put.lua
	putSource string
	putScript = calls.NewScript(putSource)
	//go:embed read.lua
	readSource string
	readScript = calls.NewScript(readSource)
	//go:embed delete.lua
	deleteSource string
	deleteScript = calls.NewScript(deleteSource)
)

// owner is a tenant since its last purge.
type owner struct {
	tenant string
	epochs cache.Epochs
}

// hash is the name of something of the owner's, by its purpose.
func (o owner) hash(purpose, id string) string {
	h := sha256.New()
	for _, part := range []string{"foregate response", purpose, o.tenant, id} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, o.epochs.All), o.epochs.Tenant))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// keys are those of a conversation, as the scripts take them, and the name of the conversation.
func (o owner) keys(id ID) (keys []string, conversation string) {
	index := keyPrefix + "{" + o.hash("tenant", "") + "}"
	conversation = o.hash("conversation", id.root)
	return []string{index, index + ":bytes", index + ":" + conversation, index + ":" + conversation + ":whole"}, conversation
}

// field is the name of a response in the hashes of its conversation.
func (o owner) field(id ID) string { return o.hash("response", id.String()) }

// seal is the key that seals a text of a response.
func (o owner) seal(what string, id ID) cache.Key {
	return cache.KeyOf(&cache.Parts{Kind: "response " + what, Tenant: o.tenant, Epochs: cache.Epochs{All: o.epochs.All, Tenant: o.epochs.Tenant}, Request: []byte(id.String())})
}
