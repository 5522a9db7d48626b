package embedded

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

const (
	maxClients      = 32               // connections at once; further ones are closed
	authTimeout     = 10 * time.Second // from a connection until its password
	maxAuthArgs     = 8                // of a command before the password
	maxAuthBytes    = 4 << 10
	maxCommandArgs  = 1 << 12 // of a command behind it
	maxCommandBytes = 8 << 20
)

// Listener lets programs of this machine reach an embedded Redis: by TCP on loopback, with a password. What is
// sent before the password never reaches that Redis, because a malformed command would end it.
type Listener struct {
	Password string // of the user default

	listener net.Listener
	dialer   *pipeDialer

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{} // open; nil once it is stopped
}

// Listen opens the server to programs that know a password, at an address of loopback. Where its port is taken, any free
// port is used.
func (s *Server) Listen(ctx context.Context, address, password string) (*Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, errors.New("must be on loopback, such as 127.0.0.1:6379")
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		ln, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, err
	}
	l := &Listener{Password: password, listener: ln, dialer: s.dialer, conns: map[net.Conn]struct{}{}}
	l.wg.Go(func() {
		defer panics.Recover(ctx)
		l.accept(ctx)
	})
	return l, nil
}

// Addr is where it listens.
func (l *Listener) Addr() *net.TCPAddr { return l.listener.Addr().(*net.TCPAddr) }

// Stop closes the listener and its connections, and waits for them. It leaves the Redis as it is.
func (l *Listener) Stop() {
	_ = l.listener.Close() // nothing more comes
	l.mu.Lock()
	for c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *Listener) accept(ctx context.Context) {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for a while
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if !l.keep(c) {
			_ = c.Close()
			continue
		}
		l.wg.Go(func() {
			defer panics.Recover(ctx)
			defer l.drop(c)
			l.serve(ctx, c)
		})
	}
}

// keep notes a connection, and reports false where there are too many or the listener is stopped.
func (l *Listener) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil || len(l.conns) >= maxClients {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Listener) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// serve answers a connection until it ends.
func (l *Listener) serve(ctx context.Context, c net.Conn) {
	r := bufio.NewReader(c)
	_ = c.SetDeadline(time.Now().Add(authTimeout)) // an error shows when it is read
	first, err := l.admit(c, r)
	if err != nil {
		return
	}
	_ = c.SetDeadline(time.Time{}) // who watches or subscribes is silent for long
	up, err := l.dialer.dial(ctx, "", "")
	if err != nil {
		return
	}
	var replies sync.WaitGroup
	replies.Go(func() {
		defer panics.Recover(ctx)
		_, _ = io.Copy(c, up) // until either ends
		_ = c.Close()
	})
	defer replies.Wait()
	defer func() { _ = up.Close() }()
	for args := first; ; {
		if len(args) > 0 {
			if strings.EqualFold(args[0], "COMMAND") {
				args = []string{"COMMAND_DOCS"} // unknown, which redis-cli takes; it ends at miniredis' own answer
			}
			if _, err := up.Write(command(args)); err != nil {
				return
			}
		}
		if args, err = readCommand(r, maxCommandArgs, maxCommandBytes); err != nil {
			return
		}
	}
}

// admit answers commands until one has shown the password. It returns what is left of that command, nil for nothing.
func (l *Listener) admit(c net.Conn, r *bufio.Reader) (rest []string, err error) {
	for {
		args, err := readCommand(r, maxAuthArgs, maxAuthBytes)
		if err != nil {
			return nil, err
		}
		rest, reply := l.judge(args)
		if reply != "" {
			if _, err := io.WriteString(c, reply+"\r\n"); err != nil {
				return nil, err
			}
		}
		if reply == "" || reply == "+OK" {
			return rest, nil
		}
	}
}

// judge returns the reply to a command before the password. +OK and "" let the client in; "" leaves the reply to the Redis.
func (l *Listener) judge(args []string) (rest []string, reply string) {
	const noAuth, wrong = "-NOAUTH Authentication required.", "-WRONGPASS invalid username-password pair or user is disabled."
	user := "default"
	var secret string
	switch n := len(args); {
	case n == 2 && strings.EqualFold(args[0], "AUTH"):
		secret = args[1]
	case n == 3 && strings.EqualFold(args[0], "AUTH"):
		user, secret = args[1], args[2]
	case n >= 5 && strings.EqualFold(args[0], "HELLO") && strings.EqualFold(args[2], "AUTH"):
		user, secret, rest = args[3], args[4], args[:2]
	default:
		return nil, noAuth
	}
	switch {
	case user != "default" || subtle.ConstantTimeCompare([]byte(secret), []byte(l.Password)) != 1:
		return nil, wrong
	case rest != nil:
		return rest, ""
	}
	return nil, "+OK"
}

var errCommand = errors.New("no command of the Redis protocol, or too large")

// readCommand reads an array of at most maxArgs strings of maxBytes together. An empty array is no error.
func readCommand(r *bufio.Reader, maxArgs, maxBytes int) ([]string, error) {
	n, err := readSize(r, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, min(n, maxAuthArgs))
	for range n {
		size, err := readSize(r, '$', maxBytes)
		if err != nil {
			return nil, err
		}
		maxBytes -= size
		var b strings.Builder // which grows as bytes come, not as they are announced
		if _, err := io.CopyN(&b, r, int64(size)+2); err != nil {
			return nil, err
		}
		text, whole := strings.CutSuffix(b.String(), "\r\n")
		if !whole {
			return nil, errCommand
		}
		args = append(args, text)
	}
	return args, nil
}

// readSize reads a line of a mark and a number of 0 … limit.
func readSize(r *bufio.Reader, mark byte, limit int) (int, error) {
	line, err := r.ReadSlice('\n') // no longer than r's buffer
	if err != nil {
		return 0, err
	}
	text, whole := strings.CutSuffix(string(line), "\r\n")
	if !whole || text == "" || text[0] != mark {
		return 0, errCommand
	}
	n, err := strconv.ParseUint(text[1:], 10, 31)
	if err != nil || int(n) > limit {
		return 0, errCommand
	}
	return int(n), nil
}

// command encodes a command.
func command(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}
