//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// monitored is how often the runtime is told of a call all the same: each of so many calls of a connection. The monitor
// must wake up now and then while there is work, because it interrupts goroutines that compute for long.
const monitored = 256

// maxUnannounced is the largest memory, in bytes, of a call that the runtime is not told of. A collection of garbage must
// stop all goroutines for a moment, and waits for such a call: the kernel copies so much in some ten microseconds.
const maxUnannounced = 64 << 10

// call makes a system call with memory that is not empty. The descriptor is not blocking: the net package made it so.
func (t *transfer) call(trap, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	for {
		var r uintptr
		if t.calls++; t.calls%monitored == 0 || len(p) > maxUnannounced {
			r, _, errno = syscall.Syscall(trap, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		} else {
			r, _, errno = syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		}
		switch errno {
		case 0:
			return int(r), 0
		case syscall.EINTR:
			continue
		}
		return 0, errno
	}
}
