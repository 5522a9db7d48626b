package chaos

import (
	"fmt"
	"os"
	"path/filepath"
)

// under has a gateway start below a shell that says the words first, such as ulimit -n
// 256; the process keeps its id.
func (g *Gateway) under(dir, words string) error {
	binary, err := filepath.Abs(g.binary)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, fmt.Sprintf("gateway-%d.sh", g.Number))
	text := "#!/bin/sh\n" + words + "\nexec '" + binary + "' \"$@\"\n"
	g.binary = file
	return os.WriteFile(file, []byte(text), 0o700) //nolint:gosec // it is to be run
}
