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

// ErrTooLarge is in the error of an answer of which more must be kept than a Bound allows.
var ErrTooLarge = errors.New("which must be kept until its end")

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
		return fmt.Errorf("an answer of more than %d bytes, %w", b.max, ErrTooLarge)
	}
	return nil
}
