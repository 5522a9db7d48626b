package engines

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tools are those that people use before vLLM and llama.cpp; .ci/engines/tool.py runs them.
var tools = []string{"openai", "anthropic", "langchain", "litellm", "vllm_bench", "guidellm", "aiperf", "lm_eval_chat", "lm_eval_loglikelihood"}

// TestToolsTellTheSameBehindTheGateway runs unmodified tools before the engine, before a route that relays and before one whose
// drafts are verified to the token. make tools sets FOREGATE_TOOLS to the folder of .ci/need-engines.
func TestToolsTellTheSameBehindTheGateway(t *testing.T) {
	home := os.Getenv("FOREGATE_TOOLS")
	if home == "" {
		t.Skip("FOREGATE_TOOLS is not set: make tools")
	}
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{settings: []string{"speculation.verify_rule@verify", "exact"}})
		for _, tool := range tools {
			t.Run(tool, func(t *testing.T) {
				if tool == "lm_eval_loglikelihood" && p.target.Kind == LlamaCpp {
					t.Skip("llama.cpp does not tell the logprobs of a prompt")
				}
				alone := runTool(t, home, tool, p.target.URL, p.target.Model)
				t.Logf("the engine alone: %s", alone)
				for _, route := range []string{"off", "verify"} {
					told := runTool(t, home, tool, r.URL, route)
					o := equal
					if told != alone {
						o = different
						t.Errorf("route %s: %s", route, told)
					}
					tally(kindOfAnswer{p.name, tool, route}, o)
				}
			})
		}
	})
}

// runTool is what a tool tells of a server.
func runTool(t *testing.T, home, tool, url, model string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(home, "tools", "bin", "python"), "../../.ci/engines/tool.py", tool, url, model, home)
	c.WaitDelay = 10 * time.Second // its children may hold the pipes
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s before %s: %v\n%s", tool, model, err, said.String())
	}
	return strings.TrimSpace(string(out))
}
