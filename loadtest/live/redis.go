package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	startPatience = 30 * time.Second // for a child to serve; machines under test are busy
	pollEvery     = 10 * time.Millisecond
	portTries     = 5 // a port that was free may be taken when the child gets to it
)

// startRedis runs a Redis that keeps nothing, on a port of its own.
func startRedis(ctx context.Context, dir string) (p *process, url string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", errors.New("redis-server is not in PATH: install redis-server, or use --redis URL")
	}
	for range portTries {
		addr, err := freeAddr()
		if err != nil {
			return nil, "", err
		}
		_, port, _ := net.SplitHostPort(addr) // it is one
		p, err = launch("redis-server", path, "--bind", "127.0.0.1", "--port", port,
			"--save", "", "--appendonly", "no", "--dir", dir, "--daemonize", "no")
		if err != nil {
			return nil, "", err
		}
		if err = p.serves(ctx, func() bool { return pong(ctx, addr) }); err == nil {
			return p, "redis://" + addr + "/0", nil
		}
		p.stop()
		if !p.lostPort() {
			return nil, "", err
		}
	}
	return nil, "", fmt.Errorf("redis-server found no free port in %d tries", portTries)
}

// pong reports whether a Redis answers at addr.
func pong(ctx context.Context, addr string) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, len("+PONG"))
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "+PONG"
}

// serves polls until ok, the child's end, or the end of patience.
func (p *process) serves(ctx context.Context, ok func() bool) error {
	limit := time.NewTimer(startPatience)
	defer limit.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.exited:
			return p.died()
		case <-limit.C:
			return fmt.Errorf("%s did not serve within %v%s", p.name, startPatience, p.words())
		case <-tick.C:
		}
	}
	return nil
}

// lostPort reports whether a child ended because somebody else has its port.
func (p *process) lostPort() bool {
	return strings.Contains(strings.ToLower(p.log.String()), "address already in use")
}

// freeAddr is a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// freeAddrs are n different ones.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // held until all are known, so that they differ
		addrs = append(addrs, "127.0.0.1:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return addrs, nil
}
