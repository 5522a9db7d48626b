package cost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/foregate/foregate/loadtest/flame"
)

// profileSeconds is how long each profile lasts.
const profileSeconds = 6

// profile writes CPU profiles of the gateway as files and flame graphs, one for each load, and returns what the time went to.
func (c *cost) profile(b *testing.B, dir string) (paths []Path) {
	b.Helper()
	for _, g := range c.groups {
		for _, w := range g.workloads {
			p := c.get(w.at)
			if w.at == yardstick || w.at == nginx {
				continue
			}
			l := w.load
			l.lasts, l.requests = (profileSeconds+1)*time.Second, 0
			done := make(chan error, 1)
			go func() {
				_, err := p.apply(l)
				done <- err
			}()
			text := p.get(b, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds))
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			parsed, err := profile.ParseData(text)
			if err != nil {
				b.Fatal(err)
			}
			file := filepath.Join(dir, strings.NewReplacer(" ", "-", ",", "").Replace(w.title))
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file+".pprof", text, 0o600),
				os.WriteFile(file+".svg", []byte(flame.SVG(parsed, w.title)), 0o600)); err != nil {
				b.Fatal(err)
			}
			fmt.Println(file + ".svg")
			paths = append(paths, Path{Title: w.title, Shares: flame.Shares(parsed)})
		}
	}
	return paths
}
