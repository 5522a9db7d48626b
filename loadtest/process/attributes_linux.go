package process

import "syscall"

// attributes keep a terminal's Ctrl-C from the children, because we stop them in
// order, and let the kernel end them should we be killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
