//go:build race

package socket

import "syscall"

// call makes a system call as the net package does. The race detector takes a write and the read of its bytes as an order
// of the two, but only if they are made by these functions.
func (t *transfer) call(trap, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	transfers := map[uintptr]func(int, []byte) (int, error){syscall.SYS_READ: syscall.Read, syscall.SYS_WRITE: syscall.Write}
	for {
		t.calls++
		n, err := transfers[trap](int(fd), p)
		errno, _ := err.(syscall.Errno)
		if errno != syscall.EINTR {
			return max(n, 0), errno
		}
	}
}
