//go:build !linux

package process

import "syscall"

// attributes has nothing to ask for: elsewhere a child outlives a parent that is
// killed.
func attributes() *syscall.SysProcAttr { return nil }
