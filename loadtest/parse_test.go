package loadtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/yamlfile"
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

func TestATraceIsBesideItsScenarioOrWhereTheEnvironmentSays(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "replay.yaml")
	data, err := os.ReadFile("testdata/scenario_good/replay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"": filepath.Join(dir, "traces", "a.csv"), "elsewhere": filepath.Join("elsewhere", "a.csv")} {
		t.Setenv(tracesFolder, env)
		s, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if s.Arrivals.Trace.Path != want {
			t.Errorf("got %s, want %s", s.Arrivals.Trace.Path, want)
		}
	}
}

func TestManyMistakesAreToldInTheOrderOfTheirLinesAndBounded(t *testing.T) {
	var b strings.Builder
	for i := range 80 {
		fmt.Fprintf(&b, "x%d: 1\n", i)
	}
	_, err := Parse("a.yaml", []byte(b.String()))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != yamlfile.MaxProblems+1 || !strings.HasPrefix(lines[49], "a.yaml:") || !strings.Contains(lines[50], "and 34 more") {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

func TestAFileTooLargeOrTooDeepIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"a.yaml:1:1: the file is larger than 262144 bytes": strings.Repeat("#", maxFile+1),
		"a.yaml:1:24: nested more than 20 deep":            "a: " + strings.Repeat("[", 30) + strings.Repeat("]", 30),
	} {
		if _, err := Parse("a.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
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
