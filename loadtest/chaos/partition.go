package chaos

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// ProcessPartition relays TCP to a server, and resets the connections of one process: a network
// that is broken for that process alone. It asks Linux' /proc whose a connection is.
type ProcessPartition struct {
	Addr string // HOST:PORT where it listens

	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	sick  int // process id; 0 is nobody
	conns map[net.Conn]struct{}
	ended bool
}

// NewProcessPartition listens on a loopback address of its own; Close ends it and waits.
func NewProcessPartition(upstream string) (*ProcessPartition, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	d := &ProcessPartition{Addr: l.Addr().String(), upstream: upstream, listener: l, conns: map[net.Conn]struct{}{}}
	d.running.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				d.running.Go(func() { d.relay(conn) })
			}
		}
	})
	return d, nil
}

// Part breaks the network of a process; 0 mends it.
func (d *ProcessPartition) Part(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sick = pid
	for conn := range d.conns {
		if pid != 0 && owns(pid, conn) {
			reset(conn)
		}
	}
}

// keep notes a connection of somebody whose network works.
func (d *ProcessPartition) keep(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || d.sick != 0 && owns(d.sick, conn) {
		return false
	}
	d.conns[conn] = struct{}{}
	return true
}

func (d *ProcessPartition) relay(conn net.Conn) {
	defer reset(conn)
	if !d.keep(conn) {
		return
	}
	defer func() {
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
	}()
	server, err := (&net.Dialer{Timeout: proxyDial}).Dial("tcp", d.upstream)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, conn}, {conn, server}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // to the end, whichever it is
			_ = conn.SetDeadline(time.Unix(1, 0))
			_ = server.SetDeadline(time.Unix(1, 0)) // the other way ends too
		})
	}
	both.Wait()
	_ = server.Close() // nothing is left to say
}

// Close ends everything and waits for it.
func (d *ProcessPartition) Close() error {
	d.mu.Lock()
	d.ended = true
	for conn := range d.conns {
		reset(conn)
	}
	d.mu.Unlock()
	err := d.listener.Close()
	d.running.Wait()
	return err
}

// reset closes a connection by RST; again is no matter.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst it ends by FIN
	}
	_ = conn.Close() // that is all there is to do
}

// owns reports whether the other end of a connection on the loopback is a process'.
func owns(pid int, conn net.Conn) bool {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false
	}
	near, far := fmt.Sprintf(":%04X", process.PortNumber(conn.RemoteAddr().String())), fmt.Sprintf(":%04X", process.PortNumber(conn.LocalAddr().String()))
	inode := ""
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[1], near) && strings.HasSuffix(f[2], far) {
			inode = f[9]
			break
		}
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, err := os.ReadDir(dir)
	if err != nil || inode == "" {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
