package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

const (
	portTries   = 5                // a port that was free may be taken when the child gets to it
	undoTimeout = 30 * time.Second // for the settings of the case to be taken back
)

// StartRedis runs a Redis that keeps nothing, on a port of its own.
func StartRedis(ctx context.Context, dir string) (p *process.Process, url string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", errors.New("redis-server is not in PATH: install redis-server, or use --redis URL")
	}
	for range portTries {
		addrs, err := process.FreeAddrs(1)
		if err != nil {
			return nil, "", err
		}
		addr := addrs[0]
		_, port, _ := net.SplitHostPort(addr) // it is one
		p, err = process.Start(process.Command{Name: "redis-server", Path: path, Args: []string{
			"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir, "--daemonize", "no",
		}})
		if err != nil {
			return nil, "", err
		}
		if err = p.Serves(ctx, func() bool { return pong(ctx, addr) }); err == nil {
			return p, "redis://" + addr + "/0", nil
		}
		_ = p.Stop() // it has ended, or ends now
		if !p.LostPort() {
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
