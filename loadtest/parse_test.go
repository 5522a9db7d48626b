package loadtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/golden"
)

// TestEveryMistakeIsToldWithItsLineAndWhatIsAllowed reads one file per mistake;
// the exact message is in the .txt beside it.
func TestEveryMistakeIsToldWithItsLineAndWhatIsAllowed(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario_bad/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("a.yaml", data)
			if err == nil {
				t.Fatal("it is read without an error")
			}
			golden.Check(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestAGoodFileBecomesTheScenarioItSays(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario_good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(file, data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(s, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, strings.TrimSuffix(file, ".yaml")+".json", string(got)+"\n")
		})
	}
}
