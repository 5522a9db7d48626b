package messages

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// tooLong are the ways in which engines and the gateway say that a request does not fit into a context. The groups are the
// context's length, the prompt's, and that of the answer that is asked for, in tokens.
var tooLong = []*regexp.Regexp{
	regexp.MustCompile(`too large: (?P<answer>\d+)\..*maximum context length is (?P<context>\d+) tokens and your request has (?P<prompt>\d+) input tokens`), // vLLM
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.*\((?P<prompt>\d+) in the messages, (?P<answer>\d+) in the completion`),           // vLLM, OpenAI
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.*requested (?P<answer>\d+) output tokens.* (?P<prompt>\d+) input tokens`),         // vLLM
	regexp.MustCompile(`maximum context length is (?P<context>\d+) tokens.* (?P<prompt>\d+) input tokens`),                                                  // vLLM
	regexp.MustCompile(`prompt \(length (?P<prompt>\d+)\).*maximum model length of (?P<context>\d+)`),                                                       // vLLM
	regexp.MustCompile(`\((?P<prompt>\d+) tokens\) exceeds the available context size \((?P<context>\d+) tokens`),                                           // llama.cpp
	regexp.MustCompile(`\((?P<prompt>\d+) tokens\) is longer than the model's context length \((?P<context>\d+) tokens`),                                    // SGLang
	regexp.MustCompile(`prompt has (?P<prompt>\d+) tokens, and the backends of this model have memory for (?P<context>\d+)`),                                // the gateway
}

// tooLongMessage says in Anthropic's words that a request does not fit: by them agents know that they must shorten the
// conversation, or ask for a shorter answer.
func tooLongMessage(message string) string {
	for _, how := range tooLong {
		found := how.FindStringSubmatch(message)
		if found == nil {
			continue
		}
		of := func(name string) int {
			if i := how.SubexpIndex(name); i > 0 {
				n, _ := strconv.Atoi(found[i])
				return n
			}
			return 0
		}
		prompt, answer, context := of("prompt"), of("answer"), of("context")
		if prompt < context && answer > 0 {
			return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again", prompt, answer, context)
		}
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", prompt, context)
	}
	return "prompt is too long: " + cmp.Or(message, "it exceeds the context")
}
