package cache

import (
	"strconv"
	"time"

	"github.com/foregate/foregate/internal/redis/embedded"
)

// NativeScripts are the scripts that each request needs, in Go, for a Redis inside the process. They do what
// their Lua does, reply for reply.
func NativeScripts() map[string]embedded.Script {
	return map[string]embedded.Script{
		lookScript.Hash(): nativeLook, beatScript.Hash(): nativeBeat, endScript.Hash(): nativeEnd,
	}
}

// nativeLook is look.lua.
func nativeLook(db embedded.DB, keys, args []string) any {
	odd := 0
	most, _ := strconv.Atoi(args[0]) // ours
	switch value, kind := db.Text(keys[0]); {
	case kind != "" && kind != "string":
		odd = 2
		db.Delete(keys[0])
	case len(value) > most:
		odd = 1
	case len(value) > 0:
		left := -1
		if ttl := db.TTL(keys[0]); ttl > 0 {
			left = int(ttl.Milliseconds())
		}
		return []any{string(FoundHit), value, left}
	}
	if len(keys) == 1 {
		return odd
	}
	lease, chunks, token, ttl := keys[1], keys[2], args[1], milliseconds(args[2])
	holder, kind := db.Text(lease)
	if kind == "string" && holder != token && db.TTL(lease) > 0 {
		if db.Kind(chunks) != "stream" {
			db.Delete(chunks)
			db.Append(chunks, "w", "1")
			db.Expire(chunks, ttl)
		}
		return []any{string(FoundFollow), holder, odd}
	}
	db.Put(lease, token, ttl)
	db.Delete(chunks)
	return []any{string(FoundLead), "", odd}
}

// nativeBeat is beat.lua.
func nativeBeat(db embedded.DB, keys, args []string) any {
	if holder, _ := db.Text(keys[0]); holder != args[0] {
		return -1
	}
	db.Expire(keys[0], milliseconds(args[1]))
	if db.Kind(keys[1]) != "" {
		return 1
	}
	return 0
}

// nativeEnd is end.lua.
func nativeEnd(db embedded.DB, keys, args []string) any {
	if holder, _ := db.Text(keys[0]); holder != args[0] {
		return 0
	}
	if db.Kind(keys[1]) != "" {
		if args[3] == askWhether {
			return isWanted
		}
		db.Append(keys[1], "t", args[0], "n", args[2], "e", args[3])
		db.Expire(keys[1], milliseconds(args[1]))
	}
	db.Delete(keys[0])
	return 1
}

// milliseconds parses one of our own arguments.
func milliseconds(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * time.Millisecond
}
