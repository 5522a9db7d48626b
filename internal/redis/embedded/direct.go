package embedded

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Script is a Lua script in Go: a Lua interpreter for each call costs 200 µs and 200 kB. Its reply is made of int,
// string and []any. As in Redis, nothing else runs meanwhile.
type Script func(db DB, keys, args []string) any

// DB is what a [Script] works on. Keys that have expired are absent.
type DB struct {
	mini *miniredis.Miniredis
	made *int // counts keys that may be new
}

// Text is the value of a key. kind is "string", or that of another value, or "" for none.
func (d DB) Text(key string) (value, kind string) {
	value, err := d.mini.Get(key)
	switch {
	case err == nil:
		return value, "string"
	case errors.Is(err, miniredis.ErrKeyNotFound):
		return "", ""
	}
	return "", d.Kind(key)
}

// Kind is the type of a key's value, as TYPE says; "" is none.
func (d DB) Kind(key string) string { return d.mini.Type(key) }

// TTL is how long a key still lives; 0 is for ever, or no key.
func (d DB) TTL(key string) time.Duration { return d.mini.TTL(key) }

// Expire has an existing key live for so long.
func (d DB) Expire(key string, ttl time.Duration) {
	if d.mini.Exists(key) {
		d.mini.SetTTL(key, ttl)
	}
}

// Put stores a text for so long, in place of any value.
func (d DB) Put(key, value string, ttl time.Duration) {
	*d.made++
	d.mini.Del(key)
	_ = d.mini.Set(key, value) // fails for another type only, which is gone
	d.mini.SetTTL(key, ttl)
}

// Delete removes a key.
func (d DB) Delete(key string) { d.mini.Del(key) }

// Append adds an element, of names and values, to a stream. It reports false for a key of another type.
func (d DB) Append(stream string, element ...string) bool {
	*d.made++
	_, err := d.mini.XAdd(stream, "*", element)
	return err == nil
}

// direct runs commands in the goroutines of their clients, one at a time.
//
// miniredis keeps a number for each key that it has ever had, also of those that are deleted. So after maxMade new keys
// another one takes its place, and then has moved to it what is asked for. What nobody asked for until the next
// change is dropped: by then there were more newer answers than are kept.
type direct struct {
	scripts map[string]Script // by their hashes
	stopped atomic.Bool

	mu   sync.Mutex // of the command that runs
	mini *miniredis.Miniredis
	old  *miniredis.Miniredis // nil: none yet
	made int                  // keys that mini may have had
}

// maxMade is about 8 MB of numbers.
const maxMade = 2 * maxAnswers

func newDirect(scripts map[string]Script) *direct {
	return &direct{scripts: scripts, mini: newMini()}
}

// newMini makes a server that runs commands, and serves nobody. Its time is passed.
func newMini() *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	if c, err := m.Dial(); err == nil { // it makes the table of commands
		_ = c.Close()
	}
	return m
}

// renew begins another server when this one has had many keys; mu is held.
func (d *direct) renew() {
	if d.made < maxMade {
		return
	}
	if d.old != nil {
		d.old.Close()
	}
	d.old, d.mini, d.made = d.mini, newMini(), 0
}

// recall moves the keys of a command to the server that runs it; mu is held.
func (d *direct) recall(args []string) {
	const longestKey = 256
	for _, key := range args {
		if d.old == nil || len(key) > longestKey || !d.old.Exists(key) {
			continue
		}
		ttl := d.old.TTL(key)
		switch d.old.Type(key) {
		case "string":
			value, _ := d.old.Get(key)
			_ = d.mini.Set(key, value) // it has no such key
		case "stream":
			elements, _ := d.old.Stream(key)
			for _, e := range elements {
				_, _ = d.mini.XAdd(key, e.ID, e.Values) // in their order
			}
		}
		if ttl > 0 {
			d.mini.SetTTL(key, ttl)
		}
		d.old.Del(key)
		d.made++
	}
}

// del removes a key.
func (d *direct) del(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mini.Del(key)
	if d.old != nil {
		d.old.Del(key)
	}
}

// pass lets time pass.
func (d *direct) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mini.FastForward(by)
	if d.old != nil {
		d.old.FastForward(by)
	}
}

// stop ends the servers; later commands fail.
func (d *direct) stop() {
	d.stopped.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mini.Close()
	if d.old != nil {
		d.old.Close()
	}
}

// directConn is a connection to an embedded Redis: who writes a command runs it, and then reads the reply, without
// another goroutine. A command that waits, such as BLPOP or SUBSCRIBE, does not work. One goroutine uses it at a time.
type directConn struct {
	db      *direct
	peer    *server.Peer
	command []byte       // what was written of the next command
	replies bytes.Buffer // not read yet
	closed  atomic.Bool
}

var _ net.Conn = (*directConn)(nil)

func newDirectConn(d *direct) *directConn {
	c := &directConn{db: d}
	c.peer = server.NewPeer(bufio.NewWriter(&c.replies))
	return c
}

// Write runs the commands that are complete.
func (c *directConn) Write(b []byte) (int, error) {
	if c.closed.Load() || c.db.stopped.Load() {
		return 0, net.ErrClosed
	}
	c.command = append(c.command, b...)
	done := 0
	for {
		args, n, err := nextCommand(c.command[done:])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		done += n
		c.run(args)
	}
	c.command = c.command[:copy(c.command, c.command[done:])]
	if len(c.command) == 0 && cap(c.command) > maxSpare {
		c.command = nil
	}
	return len(b), nil
}

// maxSpare bounds the empty buffers of a connection, in bytes.
const maxSpare = 64 << 10

// run answers one command.
func (c *directConn) run(args []string) {
	if len(args) == 0 {
		return
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	defer c.peer.Flush()
	c.db.renew()
	c.db.recall(args[1:])
	if keys, rest, s := c.script(args); s != nil {
		writeReply(c.peer, s(DB{c.db.mini, &c.db.made}, keys, rest))
		return
	}
	c.db.made++ // some commands make none, and are rare
	c.db.mini.Server().Dispatch(c.peer, args)
}

// script is the Go form of the script that a command calls, with its keys and arguments; nil for other commands.
func (c *directConn) script(args []string) (keys, rest []string, s Script) {
	const first = 3 // EVALSHA, hash, number of keys
	if len(args) < first || args[0] != "evalsha" && args[0] != "EVALSHA" {
		return nil, nil, nil
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || n > len(args)-first {
		return nil, nil, nil
	}
	return args[first : first+n], args[first+n:], c.db.scripts[args[1]]
}

// writeReply encodes a script's reply.
func writeReply(p *server.Peer, reply any) {
	switch r := reply.(type) {
	case int:
		p.WriteInt(r)
	case string:
		p.WriteBulk(r)
	case []any:
		p.WriteLen(len(r))
		for _, element := range r {
			writeReply(p, element)
		}
	default:
		p.WriteError("ERR a reply of another type")
	}
}

// nextCommand parses an array of strings, as a client sends it. It takes n bytes; 0 is too few yet.
func nextCommand(b []byte) (args []string, n int, err error) {
	count, n, err := header(b, '*')
	if n == 0 || err != nil {
		return nil, 0, err
	}
	args = make([]string, 0, min(count, maxCommandArgs))
	for range count {
		size, head, err := header(b[n:], '$')
		if head == 0 || err != nil {
			return nil, 0, err
		}
		n += head
		if len(b)-n < size+2 {
			return nil, 0, nil
		}
		args = append(args, string(b[n:n+size]))
		n += size + 2
	}
	return args, n, nil
}

// header parses a line of a mark and a number. It takes n bytes; 0 is too few yet.
func header(b []byte, mark byte) (number, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, 0, nil
	}
	if end < 2 || b[0] != mark || b[end-1] != '\r' {
		return 0, 0, errCommand
	}
	for _, digit := range b[1 : end-1] {
		if digit < '0' || digit > '9' || number > maxCommandBytes<<3 {
			return 0, 0, errCommand
		}
		number = 10*number + int(digit-'0')
	}
	return number, end + 1, nil
}

// Read reads replies. There are none to wait for: each was complete when its command was written.
func (c *directConn) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	if c.replies.Len() == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.replies.Read(b)
	if c.replies.Len() == 0 && c.replies.Cap() > maxSpare {
		c.replies = bytes.Buffer{}
	}
	return n, err
}

// Close ends the connection.
func (c *directConn) Close() error {
	c.closed.Store(true)
	return nil
}

// LocalAddr is no address.
func (*directConn) LocalAddr() net.Addr { return &net.UnixAddr{} }

// RemoteAddr is no address.
func (*directConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// SetDeadline has nothing to do: nothing waits.
func (*directConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline has nothing to do.
func (*directConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline has nothing to do.
func (*directConn) SetWriteDeadline(time.Time) error { return nil }
