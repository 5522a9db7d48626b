package chaos

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/foregate/foregate/loadtest/process"
)

// CutOff resets the connections of one process, those that are open and those that come: a network that is
// broken for that process alone. 0 mends it. Linux' /proc tells whose a connection is.
func (p *Proxy) CutOff(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff = pid
	for l := range p.links {
		if pid != 0 && owns(pid, l.client) {
			l.end(true)
		}
	}
}

// refuses tells whether the link is one of the process that is cut off.
func (l *link) refuses() bool {
	l.proxy.mu.Lock()
	pid := l.proxy.cutOff
	l.proxy.mu.Unlock()
	return pid != 0 && owns(pid, l.client)
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
