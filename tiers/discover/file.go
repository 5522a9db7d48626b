package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const statEvery = 500 * time.Millisecond

// file finds backends in a file that another program writes. It is read again when its time, size or identity
// has changed, so that a rename over it and a changed symbolic link (a Kubernetes ConfigMap) are detected as
// well.
type file struct {
	path string
	o    Options
	read fs.FileInfo // of the file whose content follows; nil: none
	urls []string
	err  error // of the content; valid until the file changes
}

func newFile(rest string, o Options) (*file, error) {
	if strings.ContainsAny(rest, "?#") {
		return nil, errors.New("want file:///PATH; write ? and # in the path as %3F and %23")
	}
	path, err := url.PathUnescape(rest)
	switch {
	case err != nil:
		return nil, errors.New("the path has a % that is no escape; write % as %25")
	case path == "" || strings.HasSuffix(path, "/") || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' }):
		return nil, errors.New("want a file's path, such as file:///etc/foregate/backends")
	}
	return &file{path: path, o: o}, nil
}

// Every is 500 ms: checking the file's state costs almost nothing.
func (f *file) Every() time.Duration { return statEvery }

// Find returns the content of the file. A file that is missing, incomplete or malformed is an error with
// path, line and reason; a later Find may succeed.
func (f *file) Find(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, err := os.Stat(f.path)
	switch {
	case err != nil:
		f.read = nil
		return nil, err
	case !now.Mode().IsRegular(): // opening a pipe would wait for its writer
		f.read = nil
		return nil, fmt.Errorf("%s: is no regular file", f.path)
	case !same(f.read, now):
		if err := f.load(); err != nil {
			f.read = nil
			return nil, err
		}
	}
	return slices.Clone(f.urls), f.err
}

// load reads the file and remembers its state before the first byte, so that the next Find detects a change
// during the read.
func (f *file) load() error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	state, err := in.Stat()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return err
	}
	f.read = state
	f.urls, f.err = parse(f.path, data, f.o)
	return nil
}

// same reports whether the file is unchanged, as far as its state shows.
func same(a, b fs.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
