package reload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read reads a regular file of at most atMost bytes. open means that every user of the machine may read it.
// Errors do not repeat the path, because a secret may have been written in its place.
func Read(path string, atMost int64) (data []byte, open bool, err error) {
	state, err := os.Stat(path)
	if err != nil {
		return nil, false, withoutPath(err)
	}
	if !state.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, false, errors.New("is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err = io.ReadAll(io.LimitReader(f, atMost+1))
	switch {
	case err != nil:
		return nil, false, withoutPath(err)
	case int64(len(data)) > atMost:
		return nil, false, fmt.Errorf("is longer than %d bytes", atMost)
	}
	return data, state.Mode().Perm()&0o004 != 0, nil
}

// withoutPath is a file error without its path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
