package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// readSmall reads a regular file of that many bytes at the most, and its state before
// the first byte was read, so that a change meanwhile can be seen. Errors do not
// repeat the path: who mistakes the field for that of a secret writes one there.
func readSmall(path string, most int64) (data []byte, state fs.FileInfo, err error) {
	state, err = os.Stat(path)
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	if !state.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, nil, errors.New("is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, nil, withoutPath(err)
	case int64(len(data)) > most:
		return nil, nil, fmt.Errorf("is longer than %d bytes", most)
	}
	return data, state, nil
}

// withoutPath is what a file's error says beside the path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
