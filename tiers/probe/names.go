package probe

import (
	"path"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
)

// names reports whether an engine of a kind means the asked model by the name that it tells. Ollama adds the tag
// ":latest" to a name without one. llama.cpp tells a file where no alias is given.
func names(kind dialect.Kind, told, asked string) bool {
	switch kind {
	case dialect.Ollama:
		return strings.TrimSuffix(told, ":latest") == strings.TrimSuffix(asked, ":latest")
	case dialect.LlamaCpp:
		return stem(told) == stem(asked)
	}
	return told == asked
}

// stem is a file's name without its folders and ".gguf".
func stem(name string) string {
	if name == "" {
		return ""
	}
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(name, `\`, "/")), ".gguf")
}

// listed reports whether a JSON array has a text.
func listed(array any, text string) bool {
	all, _ := array.([]any)
	return slices.Contains(all, any(text))
}
