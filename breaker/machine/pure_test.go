package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTimeIsPassedIn: nothing here asks for it, or waits.
func TestTheTimeIsPassedIn(t *testing.T) {
	clock := regexp.MustCompile(`\b(time\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewT\w+)|rand\.\w+)\(`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := clock.Find(text); found != nil {
			t.Errorf("%s calls %s", file, found)
		}
	}
}
