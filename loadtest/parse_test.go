package loadtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
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
			golden(t, strings.TrimSuffix(file, ".yaml")+".json", string(got)+"\n")
			if err := sane(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/scenario_good/*.yaml", "testdata/scenario_bad/*.yaml", "scenarios/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("a.yaml", data)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "a.yaml:") {
					t.Errorf("a message of two lines: %q", err)
				}
			}
			return
		}
		if err := sane(s); err != nil {
			t.Error(err)
		}
	})
}
