package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/clients/programs"
)

// patience bounds one turn of a program.
const patience = 10 * time.Minute

// call is a tool call that the model makes, and the words that come with it or instead of it.
type call struct {
	Text      string         `json:"text,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

// program is a coding agent.
type program struct {
	name, path, whole string // whole ends a stream that is complete
	answers           func(file string) []call
	// turn runs one turn in a folder, the first or a later one, and returns what the agent said at its end.
	turn func(t *testing.T, s *session, prompt string, first bool) string
}

// turns are what the user asks, with the agent's last words: each but the last takes a tool call.
var turns = []struct{ prompt, says string }{
	{"Read notes.txt.", "It holds alpha and beta."},
	{"Change beta to gamma in notes.txt.", "Changed."},
	{"Count its lines with a command.", "Two lines."},
	{"Read it again.", "It holds alpha and gamma."},
	{"Thank you.", "You are welcome."},
}

// script is what the model answers in the turns, with the given tool calls between.
func script(calls ...call) []call {
	var all []call
	for i, turn := range turns {
		if i < len(calls) {
			all = append(all, calls[i])
		}
		all = append(all, call{Text: turn.says})
	}
	return all
}

var claude = program{
	name: "claude", path: "/v1/messages", whole: "event: message_stop",
	answers: func(file string) []call {
		read := call{Text: "I look into it.", Tool: "Read", Arguments: map[string]any{"file_path": file}}
		return script(read,
			call{Text: "I change it.", Tool: "Edit", Arguments: map[string]any{"file_path": file, "old_string": "beta", "new_string": "gamma"}},
			call{Tool: "Bash", Arguments: map[string]any{"command": "wc -l notes.txt", "description": "Count lines"}}, read)
	},
	turn: func(t *testing.T, s *session, prompt string, first bool) string {
		t.Helper()
		args := []string{"-p", prompt, "--output-format", "json", "--allowed-tools", "Read", "Edit", "Bash"}
		if !first {
			args = append([]string{"--continue"}, args...)
		}
		out := s.run(t, args, "ANTHROPIC_BASE_URL="+s.wire.url, "ANTHROPIC_API_KEY=none", "ANTHROPIC_MODEL="+s.route, "ANTHROPIC_SMALL_FAST_MODEL="+s.route,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1")
		var result struct {
			Result  string `json:"result"`
			IsError bool   `json:"is_error"`
		}
		at := bytes.LastIndex(out, []byte("\n{"))
		if err := json.Unmarshal(out[at+1:], &result); err != nil || result.IsError {
			t.Fatalf("%v: %s", err, out)
		}
		return result.Result
	},
}

var codex = program{
	name: "codex", path: "/v1/responses", whole: "event: response.completed",
	answers: func(string) []call {
		command := func(cmd string) call {
			return call{Tool: "exec_command", Arguments: map[string]any{"cmd": cmd}}
		}
		read := command("cat notes.txt")
		return script(read, command("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: notes.txt\n@@\n-beta\n+gamma\n*** End Patch\nEOF\n"), command("wc -l notes.txt"), read)
	},
	turn: func(t *testing.T, s *session, prompt string, first bool) string {
		t.Helper()
		config := fmt.Sprintf("model = %q\nmodel_provider = \"foregate\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n"+
			"[model_providers.foregate]\nname = \"Foregate\"\nbase_url = %q\nenv_key = \"FOREGATE_KEY\"\nwire_api = \"responses\"\n", s.route, s.wire.url+"/v1")
		home := filepath.Join(s.home, ".codex")
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"exec", "--json", "--skip-git-repo-check"}
		if !first {
			args = append(args, "resume", "--last")
		}
		said := ""
		for line := range bytes.Lines(s.run(t, append(args, prompt), "FOREGATE_KEY=none")) {
			var event struct {
				Type string `json:"type"`
				Item struct{ Type, Text string }
			}
			if json.Unmarshal(line, &event) != nil {
				continue // a line of the log
			}
			if strings.HasSuffix(event.Type, "failed") || event.Type == "error" {
				t.Fatalf("%s", line)
			}
			if event.Item.Type == "agent_message" {
				said = event.Item.Text
			}
		}
		return said
	},
}

// session is a conversation with a program in a folder of its own.
type session struct {
	program
	wire               *wire
	route, home, place string
}

func (p program) begin(t *testing.T, route string) *session {
	t.Helper()
	s := &session{program: p, route: route, home: t.TempDir(), place: t.TempDir()}
	if err := os.WriteFile(s.file(), []byte("alpha\nbeta\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) file() string { return filepath.Join(s.place, "notes.txt") }

// run runs the program to its end, with nothing of the caller's environment.
func (s *session) run(t *testing.T, args []string, env ...string) []byte {
	t.Helper()
	home := os.Getenv("FOREGATE_AGENTS")
	if home == "" {
		t.Fatal("FOREGATE_AGENTS is not set: run make agents")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "bin", s.name), args...)
	cmd.Dir, cmd.Env = s.place, append(env, "PATH="+os.Getenv("PATH"), "HOME="+s.home)
	var out programs.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s %q: %v\n%s", s.name, args, err, out.String())
	}
	return []byte(out.String())
}
