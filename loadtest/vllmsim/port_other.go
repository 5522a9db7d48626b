//go:build !linux

package vllmsim

// holdPort would keep a port that nobody listens on; here the port is free until the server comes back.
func holdPort(string) func() { return nil }
