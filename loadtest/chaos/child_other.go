//go:build !linux

package chaos

import "syscall"

// childAttributes has nothing to ask for: elsewhere a child outlives a parent that is
// killed.
func childAttributes() *syscall.SysProcAttr { return nil }
