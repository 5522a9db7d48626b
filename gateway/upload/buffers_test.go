package upload

import "testing"

func TestABufferIsAtMostHalfLargerThanItsBody(t *testing.T) {
	for class := range classes {
		size := sizeOf(class)
		if classOf(size) != class || size < largest && classOf(size+1) != class+1 {
			t.Errorf("%d bytes are of class %d, want %d; one more of class %d", size, classOf(size), class, classOf(size+1))
		}
	}
	if sizeOf(0) != smallest || sizeOf(classes-1) != largest {
		t.Errorf("buffers of %d … %d bytes", sizeOf(0), sizeOf(classes-1))
	}
	for size := int64(0); size < 2*largest; size += 1 + size/20 {
		memory, b := newBuffer(size)
		if n := int64(len(memory)); n != Capacity(size) || n < size || 2*n > 3*size {
			t.Errorf("%d bytes for a body of %d", n, size)
		}
		if (b == nil) != (size < smallest || size > largest) {
			t.Errorf("%d bytes: buffer %v", size, b != nil)
		}
		if b != nil {
			b.free()
		}
	}
}
