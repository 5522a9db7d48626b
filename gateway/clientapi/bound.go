package clientapi

import (
	"errors"
	"fmt"
)

// Bound limits what the parts of an encoder keep of an answer together. nil is no limit.
type Bound struct {
	max  int64 // bytes
	kept int64
}

// ErrTooLarge says that what must be kept of an answer until its end is above a Bound.
var ErrTooLarge = errors.New("too large an answer to be kept")

// NewBound returns a Bound; 0 bytes are no limit.
func NewBound(maxBytes int64) *Bound {
	if maxBytes == 0 {
		return nil
	}
	return &Bound{max: maxBytes}
}

// Keep counts bytes that are kept from now on.
func (b *Bound) Keep(bytes int) error {
	if b == nil {
		return nil
	}
	if b.kept += int64(bytes); b.kept > b.max {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, b.max)
	}
	return nil
}
