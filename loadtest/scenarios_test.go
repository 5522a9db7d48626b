package loadtest

import (
	"path/filepath"
	"testing"
)

func TestEveryScenarioOfOursParses(t *testing.T) {
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.About) < 100 {
				t.Errorf("its about says little: %q", s.About)
			}
			for i := range s.Cases {
				w, err := NewWorkload(s, &s.Cases[i], s.Seed)
				if err != nil {
					t.Fatal(err)
				}
				for k := range 20 {
					talk(w.Session(k))
				}
			}
		})
	}
}
