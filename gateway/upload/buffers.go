package upload

import (
	"math/bits"
	"sync"
)

const (
	// Buffers from smallest to largest bytes are reused. Smaller ones cost less than to reuse them, and larger
	// ones are too rare (BenchmarkReadBody).
	smallest = 4 << 10
	largest  = 1 << 20

	// classes is the number of sizes: powers of two, and the middle between two of them.
	classes = 2*(20-12) + 1
)

// Capacity returns the size of the buffer that a body of size bytes gets: at most half more.
func Capacity(size int64) int64 {
	if class := classOf(size); class >= 0 {
		return sizeOf(class)
	}
	return size
}

// classOf returns the smallest class that size bytes fit in, −1 if buffers of that size are not reused.
func classOf(size int64) int {
	if size < smallest || size > largest {
		return -1
	}
	power := bits.Len64(uint64(size-1)) - 1 // 2^power < size ≤ 2^(power+1)
	class := 2 * (power - 12)
	if size > 3<<(power-1) {
		return class + 2
	}
	return max(class+1, 0) // size 4096 has power 11
}

// sizeOf is the size of the buffers of a class.
func sizeOf(class int) int64 { return int64(2+class%2) << (11 + class/2) }

// buffer is memory for a body, of the size of a class.
type buffer struct{ bytes []byte }

// buffers have those that are free, by class. The garbage collector bounds them.
var buffers [classes]sync.Pool

// newBuffer returns memory of at least size bytes, and the buffer that it belongs to; nil if it is not reused.
func newBuffer(size int64) ([]byte, *buffer) {
	class := classOf(size)
	if class < 0 {
		return make([]byte, size), nil
	}
	b, ok := buffers[class].Get().(*buffer)
	if !ok {
		b = &buffer{make([]byte, sizeOf(class))}
	}
	return b.bytes, b
}

// free returns a buffer that nothing refers to any more. With the race detector it is overwritten, so that a
// test notices whoever still reads it.
func (b *buffer) free() {
	if raced {
		b.bytes[0] = '!'
		for n := 1; n < len(b.bytes); n *= 2 {
			copy(b.bytes[n:], b.bytes)
		}
	}
	buffers[classOf(int64(len(b.bytes)))].Put(b)
}
