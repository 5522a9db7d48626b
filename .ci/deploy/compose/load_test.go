package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// root is the repository's.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// load reads compose files as docker compose does: strictly, with interpolation, and with an
// environment that has nothing in it but what is given.
func load(t *testing.T, env []string, files ...string) *types.Project {
	t.Helper()
	var paths []string
	for _, f := range files {
		paths = append(paths, filepath.Join(root(t), f))
	}
	o, err := cli.NewProjectOptions(paths, cli.WithWorkingDirectory(root(t)), cli.WithEnv(env), cli.WithProfiles([]string{"*"}), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	simulated = "docker-compose.yml"
	real      = "deploy/compose/vllm.yml" // over simulated
	demo      = "deploy/compose/demo.yml" // alone
)

var loaded map[string]*types.Project

// variants are the ways in which the files are used. Nobody may change them: they are read once, for all tests.
func variants(t *testing.T) map[string]*types.Project {
	t.Helper()
	if loaded == nil {
		loaded = map[string]*types.Project{"simulated": load(t, nil, simulated), "vLLM": load(t, nil, simulated, real), "demo": load(t, nil, demo)}
	}
	return loaded
}

// makeSecrets runs the command that is documented, into a folder of the test's.
func makeSecrets(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "deploy/compose/secrets.sh"), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
