package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const sums = "SHA256SUMS"

// entry is a file of an archive.
type entry struct {
	name string // in it
	path string // where it is now
	mode int64
}

// pack writes the archive of the programs in bin: one folder, named as the archive is.
func pack(o options, bin, name string) error {
	var entries []entry
	for _, c := range commands {
		entries = append(entries, entry{name + "/" + c, filepath.Join(bin, c), 0o755})
	}
	for _, p := range papers {
		entries = append(entries, entry{name + "/" + p, filepath.Join(o.source, p), 0o644})
	}
	f, err := os.Create(filepath.Join(o.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	if err := writeArchive(f, entries, o.made); err != nil {
		_ = f.Close() // the first error is the cause
		return err
	}
	return f.Close()
}

// writeArchive writes entries in the order of their names, each as of the time made and nobody's.
func writeArchive(w io.Writer, entries []entry, made time.Time) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		body, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(body)), Mode: e.mode, ModTime: made, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(body); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// writeSums writes what sha256sum --check reads.
func writeSums(out string, files []string) error {
	var text strings.Builder
	for _, name := range slices.Sorted(slices.Values(files)) {
		sum, err := digest(filepath.Join(out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(out, sums), []byte(text.String()), 0o644)
}

// digest is the SHA-256 of a file, in hex.
func digest(path string) (string, error) {
	body, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(body)), err
}
